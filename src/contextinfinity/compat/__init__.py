"""The small APIs of the source documents: threads and context builder (A, C), conversation memory (D)."""
