"""Classify provider failures, for all vendors.

The input is what a vendor sent instead of an answer: a status, a body, headers, or an error inside a stream. The result
is a ``ProviderError`` whose ``kind`` is one of ``KINDS``, with a message and a hint for users.

Vendors document their codes but not their wording, so codes are read first, then the status, then the type. Wording is
read only if those say no more than "bad request" or "server error": most vendors reject oversized requests that way.

Two facts are read besides: the token limit that a vendor names when it rejects an oversized request, and from the
headers how long to wait before a retry.
"""

from __future__ import annotations

import math
import re
import ssl
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from contextinfinity.domain.message import Json
from contextinfinity.errors import ProviderError

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def retry_after(headers: Mapping[str, str], *, now: float | None = None) -> float | None:
    """Return the seconds to wait from headers (names in lower case), or None.

    The most precise header wins: milliseconds, then seconds or an HTTP date, then the reset time of an exhausted rate
    limit.
    """
    milliseconds = _seconds_in(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    header = headers.get("retry-after")
    if header is not None:
        number = _seconds_in(header)
        return number if number is not None else _until(header, time.time() if now is None else now)
    waits = [
        seconds(headers.get(f"x-ratelimit-reset-{what}", ""))
        for what in ("requests", "tokens")
        if headers.get(f"x-ratelimit-remaining-{what}", "").strip() == "0"
    ]
    return max((wait for wait in waits if wait is not None), default=None)


def _seconds_in(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None


def _until(date: str, now: float) -> float | None:
    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def seconds(text: str) -> float | None:
    """Parse ``6m0s``, ``120ms`` or plain seconds."""
    parts = _DURATION.findall(text)
    if not parts:
        return _seconds_in(text)
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


NOT_TOKENS = frozenset(
    {
        "request_too_large",
        "request_body_too_large_after_decoding",
        "string_above_max_length",
        "array_above_max_length",
        "max_tokens_per_request",
    }
)
"""Codes of rejections for bytes, characters or items, which say nothing about the context window."""
BODY_TOO_LARGE, RATE_LIMITED = 413, 429

_FIELDS = ("n_ctx", "max_model_len", "context_length")
"""Error fields in which servers for open models report the limit."""
_NUMBER = r"(\d[\d,]{2,11})\b"
_NAMED = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?:>|<=) {_NUMBER}",
        rf"max(?:imum)? (?:prompt|input|model) (?:length|len|size)\D{{0,12}}{_NUMBER}",
        rf"context (?:length|size|window|limit)\D{{0,12}}{_NUMBER}",
        rf"limit of {_NUMBER} tokens",
        rf"tokens allowed \({_NUMBER}\)",
        rf"{_NUMBER} (?:tokens? )?max(?:imum)? context",
    )
)


def window_named(status: int | None, codes: Collection[str], error: Mapping[str, Json] | str, said: str) -> int | None:
    """Return the window in tokens that a size rejection names; 0 if it names none; None if it is not about tokens."""
    if status in (BODY_TOO_LARGE, RATE_LIMITED) or not NOT_TOKENS.isdisjoint(codes):
        return None
    fields = {} if isinstance(error, str) else error
    for name in _FIELDS:
        if isinstance(figure := fields.get(name), int) and figure > 0:
            return figure
    found = next((match for pattern in _NAMED if (match := pattern.search(said.lower()))), None)
    return int(found[1].replace(",", "")) if found else 0


LONGEST_QUOTE = 300
LONGEST_BODY = 20_000
SOMEBODY = "The provider"
"""Used if the vendor's name is unknown."""
SHORTEST_SECRET = 8
"""Shorter keys are not scrubbed: placeholders such as "none" or "ollama" are ordinary words."""


class FailureKind(Struct, frozen=True):
    """A kind of failure: what happened, what to do, and whether a retry may succeed."""

    what: str
    hint: str
    retryable: bool = False


KINDS: dict[str, FailureKind] = {
    "rate_limit": FailureKind(
        "it limits the rate of requests", "Wait a little, or ask the vendor for a higher rate limit.", True
    ),
    "overloaded": FailureKind("it is overloaded", "Try again in a while, or choose another model.", True),
    "server": FailureKind("it reported a server error", "Try again in a while, or choose another model.", True),
    "time_out": FailureKind("no answer in time", "Try again; ask for less, or allow more time in config.toml.", True),
    "connection": FailureKind("the connection failed", "Check the network and base_url in config.toml.", True),
    "size": FailureKind("the request is too long for the model", "Send less, or choose a model with a larger window."),
    "authentication": FailureKind(
        "the key was refused", "Check the variable that api_key_env names, and what its key is allowed to use."
    ),
    "quota": FailureKind("the account has no credit left or has reached its limit", "Check the vendor's billing page."),
    "not_found": FailureKind(
        "there is no such model or address", "Check the model's name and base_url; a local server must have the model."
    ),
    "bad_request": FailureKind("the request was refused", "Check the model's options in config.toml."),
    "filter": FailureKind("the vendor's content policy stopped it", "Rephrase the message, or choose another model."),
    "garbled": FailureKind("the response cannot be parsed", "Check that base_url speaks the vendor's protocol."),
    "provider": FailureKind("the request failed", "Try again, or choose another model."),
}

KEY_HINT = "Check the environment variable {}, and what its key is allowed to use."

BY_CODE: dict[str, str] = {
    # Anthropic: error.type, error.details.error_code
    "authentication_error": "authentication",
    "permission_error": "authentication",
    "organization_on_hold": "authentication",
    "billing_error": "quota",
    "enforced_spend_limit_reached": "quota",
    "not_found_error": "not_found",
    "rate_limit_error": "rate_limit",
    "ramp_limit_exceeded": "rate_limit",
    "timeout_error": "time_out",
    "overloaded_error": "overloaded",
    "conflict_error": "server",
    "request_too_large": "size",
    "request_body_too_large_after_decoding": "size",
    # OpenAI: error.code, error.type, response.error.code
    "invalid_api_key": "authentication",
    "account_deactivated": "authentication",
    "insufficient_permissions": "authentication",
    "unsupported_country_region_territory": "authentication",
    "insufficient_quota": "quota",
    "billing_hard_limit_reached": "quota",
    "billing_not_active": "quota",
    "model_not_found": "not_found",
    "context_length_exceeded": "size",
    "string_above_max_length": "size",
    "array_above_max_length": "size",
    "max_tokens_per_request": "size",
    "rate_limit_exceeded": "rate_limit",
    "server_is_overloaded": "overloaded",
    "slow_down": "overloaded",
    "vector_store_timeout": "server",
    "invalid_prompt": "filter",
    "bio_policy": "filter",
    "misalignment_policy_violation": "filter",
    "content_policy_violation": "filter",
    "image_content_policy_violation": "filter",
    "content_filter": "filter",
    "data_inspection_failed": "filter",
    "data_residency_mismatch": "bad_request",
    "invalid_image": "bad_request",
    "invalid_image_format": "bad_request",
    "invalid_base64_image": "bad_request",
    "invalid_image_url": "bad_request",
    "invalid_image_mode": "bad_request",
    "image_too_large": "bad_request",
    "image_too_small": "bad_request",
    "image_parse_error": "bad_request",
    "image_file_too_large": "bad_request",
    "image_file_not_found": "bad_request",
    "unsupported_image_media_type": "bad_request",
    "empty_image_file": "bad_request",
    "failed_to_download_image": "bad_request",
    # Perplexity, llama.cpp, vLLM
    "invalid_model": "not_found",
    "exceed_context_size_error": "size",
    "unavailable_error": "overloaded",
    "notfounderror": "not_found",
    # Gemini: error.details[].reason, error.status
    "api_key_invalid": "authentication",
    "api_key_service_blocked": "authentication",
    "unauthenticated": "authentication",
    "permission_denied": "authentication",
    "billing_disabled": "quota",
    "resource_exhausted": "rate_limit",
    "unavailable": "overloaded",
    "deadline_exceeded": "time_out",
}

BY_STATUS: dict[int, str] = {
    401: "authentication",
    402: "quota",
    403: "authentication",
    404: "not_found",
    408: "time_out",
    409: "server",
    413: "size",
    425: "server",
    429: "rate_limit",
    499: "time_out",
    503: "overloaded",
    504: "time_out",
    529: "overloaded",
}

BY_TYPE: dict[str, str] = {
    # These types occur with many statuses, so the status is checked first.
    "api_error": "server",
    "server_error": "server",
    "internalservererror": "server",
    "invalid_request_error": "bad_request",
    "badrequesterror": "bad_request",
}

_SIZE = re.compile(
    r"prompt (is )?too long|input (is )?too long|maximum (context|prompt) length|context size has been exceeded"
    r"|longer than the max(imum)? model len|too large to process|reduce the length of the (messages|input|prompt)"
    r"|max_(completion_)?tokens must be at least 1, got -"
)
_WINDOW = re.compile(r"context[ _-](size|length|window|limit)|input token count|max_model_len")
_OVER = re.compile(r"exceed|longer than|larger than|greater than|too (long|large)|maximum")
_QUOTA = re.compile(r"credit balance is too low|specified (workspace )?api usage limits|exceeded your current quota")
_FILTER = re.compile(r"content (filtering|management|usage) policy|violat\w+ (of )?(our|the) \w*\s?polic")
_DEPLETED = re.compile(r"credits are depleted")
"""Gemini's 429 for an account without credit; its other 429s are rate limits, even if they mention a quota."""
_REQUEST_OVER_RATE = re.compile(r"request too large for")
"""OpenAI's 429 for one request that exceeds the limit of a whole minute: waiting does not help."""

_TAGS = re.compile(r"<[^>]{0,500}>")


def failure(
    vendor: str,
    status: int | None,
    body: Json | str | None,
    headers: Mapping[str, str] | None = None,
    *,
    model_id: str = "",
    secrets: Iterable[str] = (),
    key_env: str = "",
) -> ProviderError:
    """Classify an error reply; ``key_env`` is the variable that holds the key."""
    error = _error_in(body)
    kind = _kind(status, error)
    sent = {name.lower(): value for name, value in (headers or {}).items()}
    asked = retry_after(sent)
    wait = (_delay(error) if asked is None else asked) if KINDS[kind].retryable else None
    message = _quoted(scrub(_message_of(error), secrets))
    hint = KEY_HINT.format(key_env) if kind == "authentication" and key_env else ""
    failed = _error(kind, vendor, status=status, why=message, model_id=model_id, wait=wait, hint=hint)
    failed.retryable = failed.retryable and sent.get("x-should-retry") != "false"
    failed.upstream = {"vendor": vendor, **_upstream(status, error, secrets, sent.get("retry-after"))}
    failed.window = window_named(status, _codes(error), error, _message_of(error)) if kind == "size" else None
    return failed


def _upstream(
    status: int | None, error: Mapping[str, Json] | str, secrets: Iterable[str], wait: str | None
) -> dict[str, str | float | None]:
    """Return what the vendor sent: its status, its own error names and its message."""
    fields = error if isinstance(error, Mapping) else {}
    upstream: dict[str, str | float | None] = {"message": scrub(_message_of(error), secrets)[:LONGEST_BODY]}
    for name in ("type", "code", "param"):
        value = fields.get(name, ())
        if value is None or isinstance(value, str | int):
            upstream[name] = value
    upstream |= {"status": status} if status is not None else {}
    return upstream | ({"retry_after": wait} if wait else {})


def failure_in_stream(vendor: str, error: Json, *, model_id: str = "", secrets: Iterable[str] = ()) -> ProviderError:
    """Classify an error inside a stream; one without a code is treated as a server error."""
    inner = _error_in(error)
    kind = _kind(None, inner)
    kind = "server" if kind == "provider" else kind
    failed = _error(kind, vendor, why=_quoted(scrub(_message_of(inner), secrets)), model_id=model_id)
    failed.upstream = {"vendor": vendor, **_upstream(None, inner, secrets, None)}
    failed.window = window_named(None, _codes(inner), inner, _message_of(inner)) if kind == "size" else None
    return failed


def connection_failure(
    vendor: str, address: str, error: BaseException, *, secrets: Iterable[str] = ()
) -> ProviderError:
    """Classify a failed or broken connection."""
    causes = list(_causes(error))
    if any(isinstance(cause, TimeoutError) or "Timeout" in type(cause).__name__ for cause in causes):
        return _error("time_out", f"{vendor} at {_place(address)}")
    reason = next((str(cause) for cause in reversed(causes) if str(cause)), type(error).__name__)
    failed = _error("connection", f"{vendor} at {_place(address)}", why=_quoted(scrub(reason, secrets)))
    # A wrong certificate or address does not become right by a retry.
    wrong = any(
        isinstance(cause, ssl.SSLError) or type(cause).__name__ in ("UnsupportedProtocol", "InvalidURL")
        for cause in causes
    )
    failed.retryable = not wrong
    return failed


def cut_off(vendor: str = SOMEBODY) -> ProviderError:
    """Return the error for a stream that ended before its final event."""
    return _error("connection", vendor, why="the answer was cut off before it was complete")


def garbled(vendor: str, what: str, *, secrets: Iterable[str] = ()) -> ProviderError:
    """Return the error for a reply that is not in the vendor's format; ``what`` gives the details."""
    return _error("garbled", vendor, why=_short(scrub(what, secrets)))


def scrub(text: str, secrets: Iterable[str]) -> str:
    """Replace keys by ``[key]``: a server may echo them in an error."""
    for secret in sorted(set(secrets), key=len, reverse=True):
        if len(secret) >= SHORTEST_SECRET:
            text = text.replace(secret, "[key]")
    return text


def _error(
    kind: str,
    vendor: str,
    *,
    why: str = "",
    status: int | None = None,
    model_id: str = "",
    wait: float | None = None,
    hint: str = "",
) -> ProviderError:
    entry = KINDS[kind]
    model = f" {model_id}" if model_id else ""
    number = "" if status is None else f" ({status})"
    message = f"{vendor}{model}: {entry.what}{number}" + (f": {why}." if why else ".")
    return ProviderError(message, kind=kind, hint=hint or entry.hint, retryable=entry.retryable, retry_after=wait)


def _kind(status: int | None, error: Mapping[str, Json] | str) -> str:
    codes = _codes(error)
    number = status if status is not None else _number(error)
    coded = next((BY_CODE[code] for code in codes if code in BY_CODE), None)
    kind = coded or _by_status(number) or next((BY_TYPE[code] for code in codes if code in BY_TYPE), "provider")
    return _by_wording(kind, _message_of(error).lower())


def _by_wording(kind: str, wording: str) -> str:
    if kind == "rate_limit":
        if _DEPLETED.search(wording):
            return "quota"
        return "size" if _REQUEST_OVER_RATE.search(wording) else kind
    if kind not in ("bad_request", "server", "provider"):
        return kind
    if _SIZE.search(wording) or (_WINDOW.search(wording) and _OVER.search(wording)):
        return "size"
    if _QUOTA.search(wording):
        return "quota"
    return "filter" if _FILTER.search(wording) else kind


def _by_status(status: int | None) -> str | None:
    if status is None:
        return None
    if status in BY_STATUS:
        return BY_STATUS[status]
    if status >= 500:
        return "server"
    return "bad_request" if status >= 400 else "garbled"


def _error_in(body: Json) -> Mapping[str, Json] | str:
    """Find the error in a body: under ``error``, the body itself, or text."""
    if isinstance(body, str):
        try:
            decoded = msgspec.json.decode(body[:LONGEST_BODY])
        except (ValueError, RecursionError):
            return body[:LONGEST_BODY]
        return _error_in(decoded) if isinstance(decoded, dict | list) else body[:LONGEST_BODY]
    if isinstance(body, list):  # Gemini's chat endpoint returns errors in a list
        return _error_in(body[0]) if body else ""
    if not isinstance(body, dict):
        return ""
    inner = body.get("error")
    if isinstance(inner, dict):
        return inner
    return inner if isinstance(inner, str) else body


def _codes(error: Mapping[str, Json] | str) -> list[str]:
    """Return the names of an error, most specific first."""
    if isinstance(error, str):
        return []
    details = error.get("details")
    exact = (
        [details.get("error_code")] if isinstance(details, dict) else [each.get("reason") for each in _listed(error)]
    )
    names = (*exact, error.get("code"), error.get("type"), error.get("status"))
    return [name.lower() for name in names if isinstance(name, str)]


def _listed(error: Mapping[str, Json]) -> list[dict[str, Json]]:
    """Return the details of a Google error: a list of objects of different types."""
    details = error.get("details")
    return [each for each in details if isinstance(each, dict)] if isinstance(details, list) else []


def _delay(error: Mapping[str, Json] | str) -> float | None:
    """Return the retry delay in the details of a Google error."""
    delays = [] if isinstance(error, str) else [each.get("retryDelay") for each in _listed(error)]
    return next((seconds(delay) for delay in delays if isinstance(delay, str)), None)


def _number(error: Mapping[str, Json] | str) -> int | None:
    code = None if isinstance(error, str) else error.get("code")
    return code if isinstance(code, int) and not isinstance(code, bool) and 400 <= code < 600 else None


def _message_of(error: Mapping[str, Json] | str) -> str:
    if isinstance(error, str):
        return error
    for name in ("message", "detail", "title", "code", "type"):
        words = error.get(name)
        if words and isinstance(words, str | list | dict):
            return words if isinstance(words, str) else msgspec.json.encode(words).decode()
    return ""


def _quoted(wording: str) -> str:
    return f"“{_short(wording).rstrip('.')}”" if wording.strip() else ""


def _short(wording: str) -> str:
    """Put a foreign message on one line, without markup and control characters, at a readable length."""
    plain = _TAGS.sub(" ", wording[:LONGEST_BODY]) if wording.lstrip().startswith("<") else wording[:LONGEST_BODY]
    line = " ".join("".join(c if c.isprintable() else " " for c in plain).split())
    return line if len(line) <= LONGEST_QUOTE else line[: LONGEST_QUOTE - 1] + "…"


def _place(address: str) -> str:
    """Return an address without user, password and query."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "that address"
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" if host else address.partition("?")[0]


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        yield at
        at = at.__cause__ or at.__context__
