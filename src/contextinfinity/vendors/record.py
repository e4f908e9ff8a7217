"""The record of one vendor: wire format, authentication, models, limits and prices.

Adding a vendor means one record in this package and, if it has a wire form of its own, one folder in ``providers``.
A record is plain data. Everything else asks it: settings which names are valid, the token counter which tokenizer
and picture formula a model has, the catalogue what a model can do, the transport where to send a request and how to
authenticate.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from contextinfinity.domain.model import Abilities, Guidance, Prices
from contextinfinity.vendors.picture_rules import ANY_PICTURE, PictureRule

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
