"""`make soak`: run the real service under load for minutes, with faults of cluster and network, and check requirements.

Three child processes: the cluster (`world`: a fake API server behind a faulty network), the service as installed
(`service`), and the schedulers (`load`). The faults and their times are data in `schedule`; the requirements are in
`verdict`.

Rule: all randomness comes from the seed; only times depend on the machine.
"""
