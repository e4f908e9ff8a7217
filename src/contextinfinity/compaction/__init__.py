"""Decide where to fold old turns: topic boundaries and fold cuts."""
