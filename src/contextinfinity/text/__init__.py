"""Pure functions on text, shared by everything above."""
