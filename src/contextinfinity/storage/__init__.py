"""Storage of the ledger: one contract and its backends."""
