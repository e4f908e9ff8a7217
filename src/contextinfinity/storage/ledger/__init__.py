"""All storage operations: plain functions over a ``Connection`` and named statements, and one class per resource."""
