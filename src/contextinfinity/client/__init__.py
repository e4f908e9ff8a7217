"""One face of the engine for all doors."""
