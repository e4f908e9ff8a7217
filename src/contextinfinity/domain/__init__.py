"""The nouns: frozen values without I/O."""
