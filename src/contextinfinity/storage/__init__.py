"""Where the ledger is kept: one contract, several stores."""
