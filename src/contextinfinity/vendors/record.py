"""The record of one vendor: wire format, authentication, models, limits and prices.

Adding a vendor means one record in this package and, if it has a wire form of its own, one folder in ``providers``. A
record is plain data. Everything else asks it: settings which names are valid, the token counter which tokenizer and
picture formula a model has, the catalogue what a model can do, the transport where to send a request and how to
authenticate.

The tokens of a picture follow the vendors' formulas. A picture is laid out in square cells. Older OpenAI models count
large tiles on top of a base; newer ones and Claude count small patches, up to a budget into which larger pictures are
scaled down. Gemini counts tiles at a fixed price.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from msgspec import Struct

from contextinfinity.domain.prompt import Abilities, Guidance, Prices

Size: TypeAlias = tuple[int, int]


class Tiles(Struct, frozen=True):
    """A base, and a price for each tile of 512 pixels."""

    base: int
    tile: int

    def tokens(self, size: Size, low_detail: bool) -> int:
        """Fit into 2048 by 2048, then the short side into 768, and count tiles."""
        if low_detail:
            return self.base
        width, height = _fit(size, 2048 / max(size))
        width, height = _fit((width, height), 768 / min(width, height))
        return self.base + self.tile * math.ceil(width / 512) * math.ceil(height / 512)


class Patches(Struct, frozen=True):
    """A price for each small patch, and at most ``budget`` patches."""

    patch: int
    budget: int
    factor: float = 1.0
    longest: int = 1_000_000
    extra: int = 0

    def tokens(self, size: Size, low_detail: bool) -> int:
        """Count patches; a picture of more is scaled down to just below the budget, and counted as all of it."""
        width, height = _fit(size, self.longest / max(size))
        # Rounded first: 92.0000001 patches are 92.
        count = math.ceil(round(width / self.patch, 6)) * math.ceil(round(height / self.patch, 6))
        return math.ceil(min(count, self.budget) * self.factor) + self.extra


class Crops(Struct, frozen=True):
    """One price for a small picture; a larger one is cropped into tiles of that price each."""

    price: int
    small: int
    tile: int

    def tokens(self, size: Size, low_detail: bool) -> int:
        """Count tiles, unless both sides are small or the vendor may use less detail."""
        if low_detail or max(size) <= self.small:
            return self.price
        return self.price * math.ceil(size[0] / self.tile) * math.ceil(size[1] / self.tile)


PictureRule: TypeAlias = Tiles | Patches | Crops

ANY_PICTURE = Patches(28, 4096)
"""For models of which nothing is known."""


def _fit(size: tuple[float, float], ratio: float) -> tuple[float, float]:
    """Scale down by the ratio; never up, never below a pixel."""
    ratio = min(1.0, ratio)
    return max(1.0, size[0] * ratio), max(1.0, size[1] * ratio)


NOTHING: Mapping[str, Any] = MappingProxyType({})


class Family(Struct, frozen=True):
    """Models that share a tokenizer. ``error``: how far a count may be off, as a share of it."""

    pattern: str
    """A regular expression that finds its models' ids, in small letters."""
    error: float
    factor: float = 1.0
    encoding: str = "o200k_base"
    exact: bool = False
    tool_tokens: int = 0
    """What the vendor adds to a request that offers tools."""


UNKNOWN_FAMILY = Family("", factor=1.1, error=0.25)


class Auth(Struct, frozen=True, kw_only=True):
    """The authentication of requests."""

    key_env: str
    """The environment variable that holds the key."""
    header: str = "Authorization"
    prefix: str = "Bearer "
    hosts: str | None = None
    """A regular expression of base URLs that get the key without api_key_env; None: every base URL does."""


class Vendor(Struct, frozen=True, kw_only=True):
    """One vendor, under the name that ``provider`` has in config.toml."""

    name: str
    wire: str
    """The package below ``providers`` that writes its requests and reads its replies."""
    base_url: str
    auth: Auth
    base_url_env: str | None = None
    """The environment variable that may replace ``base_url``, as the vendor's own SDK has it."""
    headers: Mapping[str, str] = NOTHING
    """Headers of every request."""
    headers_env: Mapping[str, str] = NOTHING
    """Headers whose value an environment variable holds: header, then variable."""
    custom_headers_env: str | None = None
    """The environment variable that holds more headers, one ``Name: value`` a line."""
    models: Mapping[str, Abilities] = NOTHING
    """What models can do, by the beginning of their id; the longest that fits is used."""
    any_model: bool = False
    """It serves models of all vendors, so their records apply too."""
    unknown_model: Abilities = Abilities()
    """For an id that is not in ``models``."""
    guidance: Mapping[str, Guidance] = NOTHING
    """Generation options of models, by the prefix of their id, for any vendor that serves them."""
    families: tuple[Family, ...] = ()
    """Tokenizers of its models, for any vendor that serves them; the first that fits is used."""
    family: Family = UNKNOWN_FAMILY
    """For an id that no family fits."""
    picture_rules: tuple[tuple[str, PictureRule], ...] = ()
    """Image token formulas by a regular expression of model ids; the first match is used."""
    picture_rule: PictureRule = ANY_PICTURE
    """For an id that no rule fits."""
    embeddings: bool = False
    """It serves ``/embeddings``."""


def row(window: int, output: int, prices: tuple[float, ...] = (), **more: Any) -> Abilities:
    """Describe a model; ``prices`` are of input, output, cached input and input written to the cache, as known."""
    named = Prices(**dict(zip(("input", "output", "cached", "cache_write"), prices, strict=False))) if prices else None
    return Abilities(context_limit=window, max_output_tokens=output, prices=named, known=True, **more)


LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""Every level, the least first."""
THREE = ("low", "medium", "high")
FOUR = (*THREE, "xhigh")
FROM_LOW_TO_MAX = (*FOUR, "max")
