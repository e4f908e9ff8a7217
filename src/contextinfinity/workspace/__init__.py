"""A conversation about a repository: files, symbols, cache tiers, and a portable history."""
