"""Pure text functions that all other packages share."""
