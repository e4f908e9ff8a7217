"""The HTTP door: routes over the client, and what stands around them.

``app`` puts it together, ``serving`` runs it in one process or several. A request passes ``guard`` (its size, its host,
how long it takes), then ``callers`` (who asks, and what they may open), then its route; whatever goes wrong becomes a
problem document in ``problems``. Imported by ``cix serve`` only: FastAPI takes half a second to load.
"""
