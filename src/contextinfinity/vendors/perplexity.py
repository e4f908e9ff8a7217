"""Perplexity: chat completions that search the web."""

from __future__ import annotations

from contextinfinity.domain.prompt import Abilities, Guidance
from contextinfinity.vendors.record import THREE, Auth, Family, Vendor, row

MODELS: dict[str, Abilities] = {
    "sonar": row(128_000, 4_096, (1, 1), tools=False),
    "sonar-pro": row(200_000, 8_192, (3, 15), tools=False, images=True),
    "sonar-reasoning": row(128_000, 4_096, tools=False, images=True, reasoning=True),
    "sonar-reasoning-pro": row(128_000, 4_096, (2, 8), tools=False, images=True, reasoning=True),
    "sonar-deep-research": row(128_000, 32_768, (2, 8), tools=False, reasoning=True),
}

_SONAR = Family(r"sonar", factor=1.02, error=0.2)

VENDOR = Vendor(
    name="perplexity",
    wire="openai_chat",
    base_url="https://api.perplexity.ai",
    auth=Auth(key_env="PERPLEXITY_API_KEY"),
    models=MODELS,
    unknown_model=Abilities(tools=False),
    guidance=dict.fromkeys(("sonar-reasoning", "sonar-deep-research"), Guidance(efforts=("minimal", *THREE))),
    families=(_SONAR,),
    family=_SONAR,
)
