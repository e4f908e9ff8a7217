"""The tokenizer family of a model, as far as it is public.

OpenAI's tokenizers are public, so texts for its models are counted exactly. The others are estimated: tokens in
o200k_base times a factor from the vendors' records. The error is for English prose and code; other scripts and long
columns of digits can be further off until usage has been reported. Derivation: docs/decisions/0006-token-counting.md.
"""

from __future__ import annotations

import re

from contextinfinity.vendors import VENDORS
from contextinfinity.vendors.record import UNKNOWN_FAMILY, Family

_FAMILIES = tuple(family for each in VENDORS.values() for family in each.families)


def family_of(provider: str, model_id: str) -> Family:
    """Return the family of a model."""
    model = model_id.lower()
    for family in _FAMILIES:
        if re.search(family.pattern, model):
            return family
    return VENDORS[provider].family if provider in VENDORS else UNKNOWN_FAMILY
