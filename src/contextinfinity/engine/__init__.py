"""Answer messages, and run the background work that follows an answer."""
