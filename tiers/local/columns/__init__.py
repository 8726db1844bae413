"""Kernels for many reports at once: exact, keyed by a report's number, streamed in chunks, the same in any order."""
