"""The ledger in PostgreSQL: its engine, its dialect of the named statements and its search."""
