"""`make soak`: the real service for minutes under load, on a cluster and a network that misbehave, and a verdict.

Three processes beside this one: the cluster (`world`: a fake API server behind a bad network), the service as it is
installed (`service`), and the schedulers (`load`). What goes wrong when stands in `schedule`, as data; what is required
in `verdict`.

Rule: everything that is random comes from the seed; nothing but times depends on the machine.
"""
