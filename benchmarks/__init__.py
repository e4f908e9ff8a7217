"""Benchmarks, each with a baseline measured in the same run: ``python -m benchmarks``."""
