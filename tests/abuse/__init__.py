"""RELIABILITY 7: hostile tenants, callers and writers of files, against a real process of the service.

Each module is one kind of attack, each test has the ID of its requirement in its name (`test_H2_…`), sends the attack
and compares with a bound or with a control: the same process before the attack, or a process beside it.
docs/security.md names the test of each bound.
"""
