"""Memories of a user: extract, reconcile, rank and render them. Pure functions without I/O."""
