"""Experiments with adaptive queries, on data that anybody has: what is saved, and at what error."""
