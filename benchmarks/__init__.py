"""Measure how fast decisions, payloads and the service are: `python -m benchmarks`, or `make bench`.

Rule: the seed alone decides what is measured; no network access, no files outside the repository.
"""
