"""The command line ``cix``: one module a command, put together in ``app``.

A command imports what it needs when it runs, so that ``cix --help`` answers at once.
"""
