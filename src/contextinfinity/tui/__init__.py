"""The terminal workbench: a conversation and everything behind it on one screen.

It talks to a client (``client.contract``) and to nothing else, so it works the same on a ledger of this machine and on
a server. Read ``workbench_app`` first: it composes the screen. A widget has a file of its own and posts messages that
name what happened (``TurnSelected``, ``BranchChosen``); the app reacts to them.
"""
