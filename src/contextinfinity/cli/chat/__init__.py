"""``cix chat``: reads questions from a pipe (``piped_chat``) or from a person at a terminal (``chat_session``).

``chat`` is the command and chooses between them; ``commands`` is the table of slash commands.
"""
