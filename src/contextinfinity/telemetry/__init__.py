"""Metrics of the process."""
