"""The Model Context Protocol: other assistants search, recall, pin and remember here.

``protocol`` answers JSON-RPC messages of any transport; ``tools`` and ``resources`` are what it offers. Everything
goes through a client that acts for one owner.
"""
