"""Send what no client sends to everything that reads foreign bytes; ``python -m benchmarks.fuzz``."""
