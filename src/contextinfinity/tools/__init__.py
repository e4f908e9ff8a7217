"""Tools that a model may call: Python functions, described to it and run for it."""
