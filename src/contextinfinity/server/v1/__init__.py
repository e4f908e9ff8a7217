"""OpenAI- and Anthropic-compatible routes: clients change the base URL, and their conversations become endless.

A dialect (``dialects``) parses the request, ``request_mapping`` maps it to a message, ``engine.resent_history`` finds
or creates its thread, and ``response_mapping`` writes the answer with the dialect.
"""
