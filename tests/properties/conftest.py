"""Properties are about what holds, not about how fast a busy machine draws its examples."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("house", deadline=None)
settings.load_profile("house")
