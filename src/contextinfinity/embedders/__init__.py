"""Texts as vectors: the contract, and the embedders that keep it."""
