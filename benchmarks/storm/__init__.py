"""Simulate a storm of preemptors on a full cluster: evictions, PDB violations and placements under each preset.

    plan.py            how large, how long, how late: the numbers
    generate.py        the cluster before the storm, and the arrivals
    truth.py           the actual state: pods, free capacity and budgets; which evictions break a budget
    clock.py           simulated time
    observed.py        the cluster as kube-scheduler and the extender have observed it so far
    kube_scheduler.py  the scheduling queue, the candidates sent to the extender, the use of its response
    extender_side.py   the real engine on the extender's cache
    policies.py        the presets
    exhaustive.py      search for a placement that breaks no budget: node by node, set by set
    tally.py           counters
    simulate.py        one storm under one policy
    report.py          the presets side by side

Rule: the seed and the numbers of the plan decide everything; no real clock and no other randomness.
"""
