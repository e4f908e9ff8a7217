"""Every storage verb, once: plain functions over a ``Connection`` and named statements, and one class a noun."""
