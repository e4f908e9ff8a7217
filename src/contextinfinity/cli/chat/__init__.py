"""``cix chat``: the command, and how answers are drawn."""
