"""Google: the Gemini API (``generateContent``)."""

from __future__ import annotations

from typing import Any

from contextinfinity.domain.prompt import Abilities, Guidance
from contextinfinity.vendors.record import THREE, Auth, Crops, Vendor, row


def _gemini(prices: tuple[float, ...] = (), output: int = 65_536, **more: Any) -> Abilities:
    return row(1_048_576, output, prices, **{"images": True, "files": True, "reasoning": True, **more})


MODELS: dict[str, Abilities] = {
    "gemini-": _gemini(),
    "gemini-2.0": _gemini(output=8_192, reasoning=False),
    "gemini-2.5": _gemini(),
    "gemini-2.5-pro": _gemini((1.25, 10, 0.125)),
    "gemini-2.5-flash": _gemini((0.3, 2.5, 0.03)),
    "gemini-2.5-flash-lite": _gemini((0.1, 0.4, 0.01)),
    "gemini-3-pro": _gemini((2, 12, 0.2)),
    "gemini-3.1-pro": _gemini((2, 12, 0.2)),
    "gemini-3-flash": _gemini((0.5, 3, 0.05)),
}

_BY_LEVEL = Guidance(efforts=THREE, thinking="adaptive", unthinking="")
"""From Gemini 3 on a model is given a level, not a number of tokens, and thinking cannot be disabled."""

VENDOR = Vendor(
    name="gemini",
    wire="gemini",
    base_url="https://generativelanguage.googleapis.com/v1beta",
    auth=Auth(key_env="GEMINI_API_KEY", header="x-goog-api-key", prefix=""),
    models=MODELS,
    unknown_model=Abilities(images=True, files=True),
    guidance={
        "gemini-": _BY_LEVEL,
        **dict.fromkeys(("gemini-1", "gemini-2.0", "gemini-2.5"), Guidance()),
        "gemini-2.5-pro": Guidance(unthinking=""),
        "gemini-3-pro": Guidance(efforts=("low", "high"), thinking="adaptive", unthinking=""),
        "gemini-3-flash": Guidance(efforts=("minimal", *THREE), thinking="adaptive", unthinking=""),
    },
    picture_rules=((r"gemini-[12]", Crops(258, 384, 768)), (r"gemini", Crops(1120, 1_000_000, 768))),
)
