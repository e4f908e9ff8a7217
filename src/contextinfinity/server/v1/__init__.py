"""The door for clients of other vendors: they change one address, and their conversations have no end.

A request is read by a dialect (``dialects``), its thread found or made by the engine (``engine.talks``), and the answer
written by the dialect again. ``asking`` is the way in, ``telling`` the way out.
"""
