from __future__ import annotations

import socket
import ssl
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextinfinity.domain.message import Json
from contextinfinity.errors import ProviderError
from contextinfinity.providers.failures import (
    BY_CODE,
    BY_STATUS,
    BY_TYPE,
    KINDS,
    connection_failure,
    failure,
    failure_in_stream,
    garbled,
    retry_after,
    scrub,
)
from tests.cases import each

KEY = "sk-ant-api03-0123456789abcdef"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "type", "code", "message", "details", "error_code", "detail"]), inner, max_size=4
        )
    ),
    max_leaves=10,
)


def said(message: str, **more: Json) -> dict[str, Json]:
    return {"error": {"message": message, **more}}


SIZES: list[tuple[str, int, Json]] = [
    (
        "anthropic",
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "prompt is too long: 210001 tokens > 200000 maximum",
            },
        },
    ),
    (
        "anthropic",
        400,
        said(
            "input length and `max_tokens` exceed context limit: 199000 + 8000 > 200000", type="invalid_request_error"
        ),
    ),
    ("anthropic", 413, said("Request exceeds the maximum size", type="request_too_large")),
    ("openai", 400, said("anything", type="invalid_request_error", code="context_length_exceeded")),
    ("openai", 400, said("Your input exceeds the context window of this model.", type="invalid_request_error")),
    ("openai", 429, said("Request too large for gpt-x on tokens per min (TPM): Limit 1, Requested 2", type="tokens")),
    (
        "vllm",
        400,
        {
            "object": "error",
            "message": "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens",
            "type": "BadRequestError",
            "code": 400,
        },
    ),
    (
        "vllm",
        400,
        said(
            "The decoder prompt (length 5000) is longer than the maximum model length of 4096.", type="BadRequestError"
        ),
    ),
    ("vllm", 400, said("max_tokens must be at least 1, got -186.", type="BadRequestError")),
    (
        "llama.cpp",
        400,
        said("request (4390 tokens) exceeds the available context size", type="exceed_context_size_error"),
    ),
    ("llama.cpp", 500, said("Context size has been exceeded.", type="server_error", code=500)),
    (
        "llama.cpp",
        500,
        said("input (600 tokens) is too large to process. increase the physical batch size", type="server_error"),
    ),
    ("openai", 400, said("Requested 300001 tokens, max 300000 tokens per request", code="max_tokens_per_request")),
    ("ollama", 400, {"error": "the input length exceeds the context length"}),
    ("perplexity", 400, said("Requested messages exceed the maximum context length", type="invalid_message", code=400)),
    ("sglang", 400, said("The input (85050 tokens) is longer than the model's context length (32768 tokens).")),
]


@pytest.mark.req("BUDGET-2")
@each(("vendor", "status", "body"), SIZES)
def test_a_size_rejection_is_told_apart_as_each_vendor_words_it(vendor: str, status: int, body: Json) -> None:
    failed = failure(vendor, status, body, model_id="m")
    assert failed.kind == "size"
    assert not failed.retryable


WINDOWS: list[tuple[int, Json, int | None]] = [
    (400, said("prompt is too long: 210001 tokens > 200000 maximum", type="invalid_request_error"), 200_000),
    (400, said("input length and `max_tokens` exceed context limit: 199000 + 8000 > 200000"), 200_000),
    (400, said("This model's maximum context length is 4096 tokens. However, you requested 5000 tokens"), 4096),
    (400, said("The decoder prompt (length 5000) is longer than the maximum model length of 4096."), 4096),
    (400, said("Input tokens exceed the configured limit of 4,096 tokens.", code="context_length_exceeded"), 4096),
    (400, said("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."), 1_048_576),
    (400, said("This model's maximum prompt length is 131072 but the request contains 537812 tokens."), 131_072),
    (400, said("The input (85050 tokens) is longer than the model's context length (32768 tokens)."), 32_768),
    (400, said("Prompt contains 40000 tokens, too large for model with 32768 maximum context length"), 32_768),
    (400, said("it exceeds the available context size", type="exceed_context_size_error", n_ctx=4096), 4096),
    (400, said("Your input exceeds the context window of this model.", code="context_length_exceeded"), 0),
    (413, said("Request exceeds the maximum size", type="request_too_large"), None),
    (429, said("Request too large for gpt-x on tokens per min (TPM): Limit 1, Requested 2", type="tokens"), None),
    (400, said("string too long", code="string_above_max_length"), None),
    (401, said("maximum context length is 4096 tokens", type="authentication_error"), None),
]


@pytest.mark.req("BUDGET-11")
@each(("status", "body", "window"), WINDOWS)
def test_a_rejection_for_tokens_names_the_window(status: int, body: Json, window: int | None) -> None:
    assert failure("acme", status, body).window == window


OTHERS: list[tuple[int, Json, str]] = [
    (401, said("invalid x-api-key", type="authentication_error"), "authentication"),
    (401, "<html><title>401 Authorization Required</title></html>", "authentication"),
    (403, said("no", type="permission_error"), "authentication"),
    (429, said("You exceeded your current quota", type="insufficient_quota", code="insufficient_quota"), "quota"),
    (402, said("pay", type="billing_error"), "quota"),
    (400, said("Your credit balance is too low to access the API", type="invalid_request_error"), "quota"),
    (400, said("You have reached your specified API usage limits.", type="invalid_request_error"), "quota"),
    (429, said("cap", type="rate_limit_error", details={"error_code": "enforced_spend_limit_reached"}), "quota"),
    (429, said("slow down", type="rate_limit_error"), "rate_limit"),
    (429, said("Rate limit reached", type="tokens", code="rate_limit_exceeded"), "rate_limit"),
    (429, None, "rate_limit"),
    (404, said("model: claude-x", type="not_found_error"), "not_found"),
    (404, said("The model does not exist", code="model_not_found"), "not_found"),
    (404, said('model "x" not found, try pulling it first', type="api_error"), "not_found"),
    (400, said("Invalid model 'x'", type="invalid_model", code=400), "not_found"),
    (400, said("temperature: must be at most 1", type="invalid_request_error"), "bad_request"),
    (422, {"detail": [{"loc": ["body"], "msg": "field required"}]}, "bad_request"),
    (400, said("Output blocked by content filtering policy", type="invalid_request_error"), "filter"),
    (400, said("no", code="content_filter"), "filter"),
    (408, None, "time_out"),
    (409, said("locked", type="conflict_error"), "server"),
    (500, said("Internal server error", type="api_error"), "server"),
    (502, "<html>Bad gateway</html>", "server"),
    (503, said("Loading model", type="unavailable_error", code=503), "overloaded"),
    (504, said("late", type="timeout_error"), "time_out"),
    (529, said("Overloaded", type="overloaded_error"), "overloaded"),
    (302, None, "garbled"),
]


@each(("status", "body", "kind"), OTHERS)
def test_every_failure_has_its_kind(status: int, body: Json, kind: str) -> None:
    failed = failure("acme", status, body)
    assert failed.kind == kind
    assert failed.retryable == (kind in ("rate_limit", "overloaded", "server", "time_out"))
    assert failed.hint
    assert failed.message.startswith("acme: ")
    assert f"({status})" in failed.message


def test_the_table_names_only_kinds_it_explains() -> None:
    assert {*BY_CODE.values(), *BY_STATUS.values(), *BY_TYPE.values()} <= KINDS.keys()


IN_STREAM: list[tuple[Json, str]] = [
    ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "overloaded"),
    ({"type": "error", "error": {"type": "api_error", "message": "Internal"}}, "server"),
    ({"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long"}}, "size"),
    ({"type": "error", "code": "rate_limit_exceeded", "message": "slow down", "sequence_number": 3}, "rate_limit"),
    ({"code": "server_error", "message": "sorry"}, "server"),
    ({"code": "invalid_prompt", "message": "flagged"}, "filter"),
    ({"type": "error", "code": None, "message": "An error occurred"}, "server"),
    ({"error": {"object": "error", "message": "EngineCore died", "code": 500}}, "server"),
    ({"error": {"object": "error", "message": "bad", "code": 400}}, "bad_request"),
    (None, "server"),
]


@pytest.mark.parametrize(("error", "kind"), IN_STREAM)
def test_an_error_inside_a_stream_has_its_kind_too(error: Json, kind: str) -> None:
    assert failure_in_stream("acme", error).kind == kind


def test_a_message_names_who_failed_and_quotes_it_on_one_short_line() -> None:
    words = "line one\r\nline two \x1b[31mred\x1b[0m " + "x" * 1000
    failed = failure("anthropic", 400, said(words, type="invalid_request_error"), model_id="claude-x")
    assert failed.message.startswith("anthropic claude-x: the request was refused (400): “line one line two")
    assert failed.message.isprintable()
    assert len(failed.message) < 400
    assert str(failed) == f"{failed.message} {failed.hint}"


def test_a_refused_key_is_traced_to_the_variable_that_holds_it() -> None:
    failed = failure("acme", 401, said("Incorrect API key provided."), key_env="ACME_KEY")
    assert "ACME_KEY" in failed.hint
    assert "ACME_KEY" in str(failed)
    assert "api_key_env" in failure("acme", 401, None).hint
    assert "ACME_KEY" not in failure("acme", 500, None, key_env="ACME_KEY").hint


@pytest.mark.req("SAFE-1")
def test_a_key_that_a_server_echoes_is_never_repeated() -> None:
    body = said(f"Incorrect API key provided: {KEY}. {KEY[:20]}")
    for failed in (
        failure("acme", 401, body, secrets=[KEY]),
        failure("acme", 401, f"<h1>{KEY}</h1>", secrets=[KEY]),
        failure("acme", 401, said("x" * 290 + KEY), secrets=[KEY]),
        failure_in_stream("acme", {"message": KEY}, secrets=[KEY]),
        connection_failure("acme", f"https://user:{KEY}@host/v1?key={KEY}", OSError(f"bad {KEY}"), secrets=[KEY]),
        garbled("acme", f"no JSON: {KEY}", secrets=[KEY]),
    ):
        assert KEY not in str(failed)
    assert scrub(f"{KEY}-{KEY}", [KEY, "sk-ant-api03"]) == "[key]-[key]"
    assert scrub("no key for ollama", ["", "ollama"]) == "no key for ollama"


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def test_a_lost_connection_names_the_address_and_can_be_tried_again() -> None:
    refused = caused(RuntimeError("Connection error."), ConnectionRefusedError(111, "Connection refused"))
    failed = connection_failure("ollama", "http://user:secret@localhost:11434/v1?x=1", refused)
    assert (failed.kind, failed.retryable) == ("connection", True)
    assert "http://localhost:11434/v1" in failed.message
    assert "Connection refused" in failed.message
    assert "secret" not in failed.message
    assert connection_failure("acme", "https://nowhere", socket.gaierror(-2, "Name unknown")).retryable


def test_waiting_for_too_long_is_a_time_out() -> None:
    failed = connection_failure("acme", "https://host", caused(RuntimeError("x"), TimeoutError()))
    assert (failed.kind, failed.retryable) == ("time_out", True)
    assert "https://host" in failed.message


def test_a_wrong_certificate_is_not_tried_again() -> None:
    wrong = caused(RuntimeError("x"), ssl.SSLCertVerificationError(1, "self-signed certificate"))
    assert not connection_failure("acme", "https://host", wrong).retryable


WAITS: list[tuple[dict[str, str], float | None]] = [
    ({"retry-after": "12"}, 12.0),
    ({"retry-after": "1.5"}, 1.5),
    ({"retry-after": "-3"}, 0.0),
    ({"retry-after": "nan"}, None),
    ({"retry-after": "soon"}, None),
    ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
    ({"retry-after": "Thu, 01 Jan 1970 00:02:00 GMT"}, 20.0),
    ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
    ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0.5s"}, 360.5),
    ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "120ms"}, 0.12),
    ({"x-ratelimit-remaining-requests": "3", "x-ratelimit-reset-requests": "5s"}, None),
    ({}, None),
]


@each(("headers", "seconds"), WAITS)
def test_the_wait_a_vendor_asks_for_is_read(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, now=100.0) == pytest.approx(seconds)


def test_headers_count_in_any_case_and_only_where_asking_again_helps() -> None:
    assert failure("acme", 429, None, {"Retry-After": "7"}).retry_after == 7.0
    assert failure("acme", 401, None, {"Retry-After": "7"}).retry_after is None
    assert not failure("acme", 503, None, {"X-Should-Retry": "false"}).retryable


@settings(deadline=None)
@given(st.none() | st.integers(100, 599), JSON)
def test_any_body_gives_a_failure_in_words(status: int | None, body: Any) -> None:
    for failed in (failure("acme", status, body), failure_in_stream("acme", body)):
        assert isinstance(failed, ProviderError)
        assert failed.kind in KINDS
        assert failed.message.isprintable()
