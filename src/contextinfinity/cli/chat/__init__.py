"""``cix chat``: lines from a pipe (``pipe``), or a person at a terminal (``talk``), plainly or drawn.

``chat`` is the command and picks one; ``commands`` is the table of what can be typed after a slash.
"""
