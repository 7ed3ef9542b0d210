"""How fast the decisions, the payloads and the service are: `python -m benchmarks`, or `make bench`.

Rule: a seed and nothing else decides what is measured; no network, no file outside the repository.
"""
