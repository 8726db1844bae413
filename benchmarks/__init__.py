"""Measurements against peers and floors: `python -m benchmarks NAME [--json]`."""
