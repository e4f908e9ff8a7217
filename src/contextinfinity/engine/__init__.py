"""What carries a message to its answer, and the work that follows."""
