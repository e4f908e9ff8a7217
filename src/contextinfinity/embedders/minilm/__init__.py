"""The better embedder of this machine: all-MiniLM-L6-v2, run by onnxruntime inside the process."""
