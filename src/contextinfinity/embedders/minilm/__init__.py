"""The better local embedder: all-MiniLM-L6-v2 on onnxruntime, inside the process."""
