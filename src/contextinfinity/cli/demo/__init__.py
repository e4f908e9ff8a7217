"""``cix demo``: an example to look at, with everything that a conversation can have."""
