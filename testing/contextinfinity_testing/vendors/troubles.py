"""How each vendor words its refusals: the status, the headers and the JSON of every ``Trouble``."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from contextinfinity.domain.message import Json
from contextinfinity_testing.vendors.answers import Trouble
from contextinfinity_testing.vendors.gemini_checks import gemini_error
from contextinfinity_testing.vendors.wire import Refused, Vendor, Wire

PAGE = (
    "<html>\r\n<head><title>{0}</title></head>\r\n<body>\r\n<center><h1>{0}</h1></center>\r\n"
    "<hr><center>{1}</center>\r\n</body>\r\n</html>\r\n"
)
REASONS = {
    400: "Bad Request",
    401: "Authorization Required",
    403: "Forbidden",
    404: "Not Found",
    408: "Request Timeout",
    413: "Request Entity Too Large",
    429: "Too Many Requests",
    500: "Internal Server Error",
    502: "Bad Gateway",
    503: "Service Temporarily Unavailable",
    504: "Gateway Time-out",
    529: "Overloaded",
}
ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
NO_KEY = "x-api-key header is required"
FILTERED = "Output blocked by content filtering policy"


class Words(Struct, frozen=True, kw_only=True):
    """A refusal as it is sent: JSON, or another text."""

    status: int
    body: Json = None
    text: str | None = None
    headers: tuple[tuple[str, str], ...] = ()


def openai_error(
    message: str, *, kind: str = "invalid_request_error", param: str | None = None, code: Json = None
) -> Json:
    """Return an error in OpenAI's JSON."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def anthropic_error(kind: str, message: str, request_id: str | None = None) -> Json:
    """Return an error in Anthropic's JSON."""
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id}


def perplexity_error(message: str, kind: str, code: int) -> Json:
    """Return an error in Perplexity's JSON."""
    return {"error": {"message": message, "type": kind, "code": code}}


def page(status: int, server: str = "nginx") -> Words:
    """Return the error page of a proxy in between."""
    title = f"{status} {REASONS.get(status, 'Error')}"
    return Words(status=status, text=PAGE.format(title, server), headers=(("content-type", "text/html"),))


def words(wire: Wire, trouble: Trouble, key: str) -> Words:
    """Return an error in a vendor's format. ``key`` is the client's, for vendors that repeat it."""
    if trouble.kind == "page":
        return page(trouble.code or 502)
    if trouble.kind == "garbage":
        return Words(
            status=200, text="%PDF-1.7 \x00 this is not { JSON", headers=(("content-type", "application/json"),)
        )
    if trouble.kind == "size":
        refused = wire.size(trouble)
        return Words(status=refused.status, body=refused.body)
    in_body = wire.vendor == "gemini"
    waits = () if trouble.retry_after is None or in_body else (("retry-after", f"{trouble.retry_after:g}"),)
    told = _HANDS[wire.vendor](trouble, key)
    return Words(status=told.status, body=told.body, text=told.text, headers=told.headers + waits)


def refusal(vendor: Vendor, key: str) -> Words:
    """Return the refusal of a wrong or missing key."""
    return _HANDS[vendor](Trouble.bad_key(), key)


def too_long(message: str, param: str) -> Refused:
    """Return OpenAI's error for a request that is too long."""
    return Refused(400, openai_error(message, param=param, code="context_length_exceeded"))


def _openai(trouble: Trouble, key: str) -> Words:
    match trouble.kind:
        case "bad_key":
            return Words(status=401, body=_openai_key(key, echo=trouble.echo_key))
        case "quota":
            said = "You exceeded your current quota, please check your plan and billing details."
            return Words(status=429, body=openai_error(said, kind="insufficient_quota", code="insufficient_quota"))
        case "overloaded":
            said = "Our servers are currently overloaded. Please try again later."
            return Words(
                status=503, body=openai_error(said, kind="service_unavailable_error", code="server_is_overloaded")
            )
        case "filter":
            said = "Invalid prompt: your prompt was flagged as potentially violating our usage policy."
            return Words(status=400, body=openai_error(said, code="invalid_prompt"))
    return _openai_status(trouble.code or 500)


def _openai_status(status: int) -> Words:
    if status == 429:
        said = "Rate limit reached for requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 1s."
        limits = (("x-ratelimit-limit-requests", "3"), ("x-ratelimit-remaining-requests", "0"))
        body = openai_error(said, kind="requests", code="rate_limit_exceeded")
        return Words(status=429, body=body, headers=(*limits, ("x-ratelimit-reset-requests", "1s")))
    if status >= 500:
        said = "The server had an error while processing your request. Sorry about that!"
        return Words(status=status, body=openai_error(said, kind="server_error"))
    codes = {403: "unsupported_country_region_territory", 404: "model_not_found"}
    return Words(status=status, body=openai_error(REASONS.get(status, "Error"), code=codes.get(status)))


def _openai_key(key: str, *, echo: bool) -> Json:
    if not key:
        said = "You didn't provide an API key. You need to provide your API key in an Authorization header."
        return openai_error(said)
    shown = key if echo else key[:8] + "*" * max(0, len(key) - 12) + key[-4:]
    return openai_error(f"Incorrect API key provided: {shown}.", code="invalid_api_key")


def _anthropic(trouble: Trouble, key: str) -> Words:
    match trouble.kind:
        case "bad_key":
            said = f"invalid x-api-key: {key}" if trouble.echo_key else "invalid x-api-key"
            return Words(status=401, body=anthropic_error("authentication_error", said if key else NO_KEY))
        case "quota":
            said = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing."
            return Words(status=400, body=anthropic_error("invalid_request_error", said))
        case "overloaded":
            return Words(status=529, body=anthropic_error("overloaded_error", "Overloaded"))
        case "filter":
            return Words(status=400, body=anthropic_error("invalid_request_error", FILTERED))
    status = trouble.code or 500
    if status == 429:
        said = "This request would exceed the rate limit for your organization of 5 requests per minute."
        limits = (("anthropic-ratelimit-requests-limit", "5"), ("anthropic-ratelimit-requests-remaining", "0"))
        return Words(status=429, body=anthropic_error("rate_limit_error", said), headers=limits)
    said = REASONS.get(status, "Internal server error")
    return Words(status=status, body=anthropic_error(ANTHROPIC_TYPES.get(status, "api_error"), said))


def _perplexity(trouble: Trouble, key: str) -> Words:
    match trouble.kind:
        case "bad_key":
            return page(401, f"openresty {key}" if trouble.echo_key else "openresty/1.25.3.1")
        case "quota":
            said = "You exceeded your current quota, please check your plan and billing details."
            return Words(status=401, body=perplexity_error(said, "insufficient_quota", 401))
        case "overloaded":
            return page(503, "openresty/1.25.3.1")
        case "filter":
            return Words(status=400, body=perplexity_error("The request was blocked.", "content_filter", 400))
    status = trouble.code or 500
    kinds = {429: "requests_limit_exceeded", 500: "internal_server_error"}
    said = REASONS.get(status, "Error")
    return Words(status=status, body=perplexity_error(said, kinds.get(status, "invalid_request"), status))


STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def _gemini(trouble: Trouble, key: str) -> Words:
    match trouble.kind:
        case "bad_key":
            said = "API key not valid. Please pass a valid API key." + (f" ({key})" if trouble.echo_key else "")
            info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
            return Words(status=400, body=gemini_error(400, "INVALID_ARGUMENT", said, [info]))
        case "quota":
            said = "Your prepayment credits are depleted."
            return Words(status=429, body=gemini_error(429, "RESOURCE_EXHAUSTED", said))
        case "overloaded":
            return Words(status=503, body=gemini_error(503, "UNAVAILABLE", "The model is overloaded."))
        case "filter":
            ratings = [{"category": "HARM_CATEGORY_HARASSMENT", "probability": "HIGH"}]
            feedback = {"blockReason": "SAFETY", "safetyRatings": ratings}
            return Words(status=200, body={"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 4}})
    status = trouble.code or 500
    said = "You exceeded your current quota." if status == 429 else REASONS.get(status, "Error")
    delay = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{trouble.retry_after or 0:g}s"}
    details = [] if trouble.retry_after is None else [delay]
    return Words(status=status, body=gemini_error(status, STATUSES.get(status, "UNKNOWN"), said, details))


_HANDS: dict[Vendor, Callable[[Trouble, str], Words]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "perplexity": _perplexity,
    "compatible": _openai,
}
