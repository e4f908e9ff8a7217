"""Check whether a rule of ``[router]`` matches a request: all its conditions must hold."""

from __future__ import annotations

from collections.abc import Iterator

from contextinfinity.routing.intent import Purpose
from contextinfinity.routing.router_inputs import ModelFacts, RouteQuery, price_of
from contextinfinity.settings import Rule

NAMES = {
    "code": "code",
    "factual": "a fact",
    "long_document": "a long document",
    "small_talk": "small talk",
    "other": "something else",
}
"""The intents in words."""


def mismatch(rule: Rule, query: RouteQuery, purpose: Purpose, model: ModelFacts | None, home: ModelFacts | None) -> str:
    """Return why a rule does not match, or an empty string.

    ``model`` is the rule's, ``home`` the one that would answer without rules; None means that there is no such model.
    """
    if rule.intent is not None and rule.intent != purpose.intent:
        return f"the message is about {NAMES[purpose.intent]}, not {NAMES[rule.intent]}"
    missing = _unneeded(rule, query, home) or _length_mismatch(rule, query) or _user_mismatch(rule, query)
    return missing or _price_mismatch(rule, query, model)


def in_words(rule: Rule, purpose: Purpose) -> str:
    """Return why a rule matched: its own reason if it has one."""
    return rule.reason or "; ".join(_matched_conditions(rule, purpose))


def _matched_conditions(rule: Rule, purpose: Purpose) -> Iterator[str]:
    if rule.intent is not None:
        yield f"the message is about {NAMES[rule.intent]}: {purpose.reason}"
    if rule.needs is not None:
        yield {"images": "the message has images", "tools": "tools are needed", "context": "a larger window is needed"}[
            rule.needs
        ]
    if (rule.min_tokens, rule.max_tokens) != (None, None):
        yield "the length of the message"
    if (rule.min_context_tokens, rule.max_context_tokens) != (None, None):
        yield "the length of the conversation"
    if rule.user is not None:
        yield f"the user is {rule.user}"
    if rule.org is not None:
        yield f"the organisation is {rule.org}"
    if rule.max_price is not None:
        yield f"it costs no more than ${rule.max_price:g}"


def _unneeded(rule: Rule, query: RouteQuery, home: ModelFacts | None) -> str:
    if rule.needs == "images" and not query.images:
        return "there are no images"
    if rule.needs == "tools" and not query.tools:
        return "no tools are needed"
    if rule.needs == "context" and home is not None and query.context_tokens <= home.input_limit:
        return f"{home.name} has a large enough window"
    return ""


def _length_mismatch(rule: Rule, query: RouteQuery) -> str:
    if not _between(rule.min_tokens, query.message_tokens, rule.max_tokens):
        return f"the message has {query.message_tokens} tokens"
    if not _between(rule.min_context_tokens, query.context_tokens, rule.max_context_tokens):
        return f"the conversation has {query.context_tokens} tokens"
    return ""


def _between(least: int | None, count: int, most: int | None) -> bool:
    return (least is None or least <= count) and (most is None or count <= most)


def _user_mismatch(rule: Rule, query: RouteQuery) -> str:
    if rule.user is not None and rule.user != query.user:
        return "another user asks"
    return "another organisation asks" if rule.org is not None and rule.org != query.org else ""


def _price_mismatch(rule: Rule, query: RouteQuery, model: ModelFacts | None) -> str:
    if rule.max_price is None or model is None:
        return ""
    price = price_of(model, query)
    if price is None:
        return "its price is not known"
    return f"it may cost ${price:.4f}" if price > rule.max_price else ""
