"""Built-in detectors of private data, each a ``Redactor``: a text in, the spans to hide out.

Each runs in linear time: a match starts only at a boundary or at a fixed character, and its length is bounded or its
parts cannot overlap. They prefer a miss to hiding version numbers, hashes, ids and dates, which models need.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from contextinfinity.prompt.redact import Redactor, by_patterns

Spans = Iterable[tuple[int, int]]

_API_KEYS = (
    r"(?<![\w-])sk-(?=[A-Za-z_-]{0,200}[0-9])[\w-]{20,}",  # OpenAI, Anthropic, OpenRouter, DeepSeek
    r"(?<![\w-])(?:AKIA|ASIA)[A-Z0-9]{16}(?!\w)",  # AWS
    r"(?<![\w-])AIza[\w-]{35}(?![\w-])",  # Google
    r"(?<![\w-])(?:gh[opusr]_[A-Za-z0-9]{36,}|github_pat_\w{22,})",
    r"(?<![\w-])glpat-[\w-]{20,}",  # GitLab
    r"(?<![\w-])xox[a-z]-[A-Za-z0-9-]{10,}",  # Slack
    r"(?<![\w-])[prs]k_(?:live|test)_[A-Za-z0-9]{16,}",  # Stripe
    r"(?<![\w-])(?:hf_[A-Za-z0-9]{30,}|gsk_[A-Za-z0-9]{40,}|xai-[A-Za-z0-9]{40,}|npm_[A-Za-z0-9]{36,})(?!\w)",
    r"(?<![\w-])pypi-AgEIcHlwaS[\w-]{40,}",
    r"(?<![\w-])SG\.[\w-]{22}\.[\w-]{43}(?![\w-])",  # SendGrid
    r"(?<![\w-])eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}",  # JSON Web Tokens
    r"-----BEGIN (?:[A-Z]{1,12} ){0,3}PRIVATE KEY-----[^-]*(?:-----END (?:[A-Z]{1,12} ){0,3}PRIVATE KEY-----)?",
)

# The lookahead reports overlapping candidates: a number before the card must not hide the card.
_CARD = re.compile(
    r"(?<![\w.])(?=([0-9]{14,19}|[0-9]{4}([ \xa0-])[0-9]{4}\2[0-9]{4}\2[0-9]{4}(?:\2[0-9]{3})?"
    r"|[0-9]{4}([ \xa0-])[0-9]{6}\3[0-9]{4,5})(?!\w|\.[0-9]))"
)
_BRANDS = (  # number of digits, first six digits from, to
    (frozenset({16, 19}), 400_000, 499_999),  # Visa
    (frozenset({16}), 222_100, 272_099),  # Mastercard
    (frozenset({16}), 510_000, 559_999),
    (frozenset({15}), 340_000, 349_999),  # American Express
    (frozenset({15}), 370_000, 379_999),
    (frozenset({14}), 300_000, 305_999),  # Diners Club
    (frozenset({14}), 360_000, 369_999),
    (frozenset({14, 16}), 380_000, 399_999),
    (frozenset({16}), 352_800, 358_999),  # JCB
    (frozenset({16, 19}), 601_100, 601_199),  # Discover
    (frozenset({16, 17, 18, 19}), 620_000, 629_999),  # UnionPay
    (frozenset({16, 19}), 644_000, 659_999),
)

_AT_DOMAIN = re.compile(r"@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}(?!\w)")
_LOCAL_PART = re.compile(r"[\w%+-][\w.%+'-]{0,63}\Z")
_LOCAL_LENGTH = 64

_INTERNATIONAL = re.compile(r"(?<![\w+])\+[1-9](?:[ .()/-]{0,2}[0-9]){7,14}(?!\w|[.:][0-9])")
_NO_PHONE = re.compile(r"\+(?:[0-9]{1,9}|[0-9]*\.[0-9]+|[0-9]{4}-[0-9]{2}-[0-9]{2}.*)", re.DOTALL)
_NORTH_AMERICAN = re.compile(
    r"(?<![\w.+/-])(?:\+?1[ .-])?(?:\([2-9][0-9]{2}\) ?|[2-9][0-9]{2}[.-])[2-9][0-9]{2}[.-][0-9]{4}(?!\w|[.-]\w)"
)


def find_payment_cards(text: str) -> Spans:
    """Return the spans of card numbers: a known issuer, its length, and a valid Luhn check digit."""
    return [match.span(1) for match in _CARD.finditer(text) if _is_card(match[1])]


def find_emails(text: str) -> Spans:
    """Return the spans of e-mail addresses; ``git@host``, the user of a repository's address, is none."""
    found = []
    for match in _AT_DOMAIN.finditer(text):
        local = _LOCAL_PART.search(text[max(0, match.start() - _LOCAL_LENGTH) : match.start()])
        if local is not None and local[0] != "git":
            found.append((match.start() - len(local[0]), match.end()))
    return found


def find_phone_numbers(text: str) -> Spans:
    """Return the spans of international (+49 ...) and North American phone numbers."""
    found = [match.span() for match in _INTERNATIONAL.finditer(text) if not _NO_PHONE.fullmatch(match[0])]
    return [*found, *(match.span() for match in _NORTH_AMERICAN.finditer(text))]


def _is_card(written: str) -> bool:
    digits = [int(character) for character in written if character.isdigit()]
    first = int("".join(map(str, digits[:6])))
    if not any(len(digits) in lengths and low <= first <= high for lengths, low, high in _BRANDS):
        return False
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[-2::-2])
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


DETECTORS: Mapping[str, Redactor] = MappingProxyType(
    {
        "api_keys": by_patterns(_API_KEYS),
        "payment_cards": find_payment_cards,
        "emails": find_emails,
        "phone_numbers": find_phone_numbers,
    }
)
"""The built-in detectors by the name that ``general.redact`` uses."""
