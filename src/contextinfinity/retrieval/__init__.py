"""Bringing the past back: what was said is cut into chunks, what was found is packed. Values in, values out."""
