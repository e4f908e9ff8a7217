"""Looking after what is stored: is it whole, and what can be set right."""
