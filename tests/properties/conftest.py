"""Properties have no deadline (a busy machine draws slowly) and draw many more examples in ``make proof``."""

from __future__ import annotations

from hypothesis import settings

from tests.sizes import sized

settings.register_profile("house", deadline=None, max_examples=sized(30, 2_000))
settings.load_profile("house")
