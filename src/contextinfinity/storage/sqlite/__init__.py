"""The embedded store: a single SQLite file."""
