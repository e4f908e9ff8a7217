"""Routes for clients of other vendors: they change the base URL, and their conversations have no end.

A dialect (``dialects``) reads the request, ``engine.resent_history`` finds or makes its thread, and the dialect writes
the answer. ``request_mapping`` is the way in, ``response_mapping`` the way out.
"""
