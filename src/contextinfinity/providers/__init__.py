"""Models: one contract, an adapter for each wire."""
