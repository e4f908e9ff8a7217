"""Models that run in this process on llama.cpp: the built-in one, and any gguf file."""
