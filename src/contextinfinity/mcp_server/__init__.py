"""The Model Context Protocol server: other assistants search, read, pin and remember.

``protocol`` answers JSON-RPC messages for any transport; ``mcp_tools`` and ``resources`` are what it offers. They use a
client that acts for one owner.
"""
