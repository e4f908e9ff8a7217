"""Build the prompt: a fixed order, a size limit, and a plan that explains it."""
