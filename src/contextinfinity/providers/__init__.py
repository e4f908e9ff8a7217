"""Model providers: one contract, and an adapter for each wire format."""
