"""Domain values: frozen data classes without I/O."""
