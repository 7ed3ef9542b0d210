"""A storm of preemptors on a full cluster, in simulated time: what each preset of preemption evicts, breaks and places.

    plan.py            how large, how long, how late: the numbers
    generate.py        the cluster before the storm, and who arrives when
    truth.py           what is so: pods, rooms and budgets; whose eviction breaks one
    clock.py           simulated time
    observed.py        the cluster as kube-scheduler and the extender have observed it so far
    kube_scheduler.py  who is tried when, what is offered, what comes of the answer
    extender_side.py   the real engine on the extender's cache
    policies.py        the presets
    exhaustive.py      is there a placement that breaks nothing? tried node by node, set by set
    tally.py           what is counted
    simulate.py        one storm under one policy
    report.py          three of them side by side

Rule: the seed and the numbers of the plan decide everything; no real clock, and no chance but what the seed gives.
"""
