"""Text embeddings: the contract, and its implementations."""
