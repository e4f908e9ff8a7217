"""Models that run inside this process, on llama.cpp: the small one that is built in, and any gguf file by its path."""
