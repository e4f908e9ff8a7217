"""Tools that a model may call: Python functions that are described to it and run for it."""
