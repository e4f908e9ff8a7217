"""The HTTP server: routes over the client.

``app`` assembles the application, ``serving`` runs it in one or several processes. A request passes ``guard`` (size,
host, timeout), then ``auth`` (the user it acts for), then its route; errors become problem documents in ``problems``.
Imported by ``cix serve`` only: FastAPI takes half a second to load.
"""
