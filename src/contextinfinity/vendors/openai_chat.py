"""Every server that speaks chat completions: Ollama, vLLM, llama.cpp, OpenRouter, OpenAI itself and many more."""

from __future__ import annotations

from contextinfinity.domain.prompt import Abilities, Guidance
from contextinfinity.vendors.record import Auth, Family, Vendor, row

MODELS: dict[str, Abilities] = {
    # Models whose window is set by their vendor. That of an open model is set by the server that runs it.
    "deepseek-chat": row(1_000_000, 384_000),
    "deepseek-reasoner": row(1_000_000, 384_000, reasoning=True),
    "grok-4.3": row(1_000_000, 30_000, images=True, reasoning=True),
    "mistral-large-latest": row(262_144, 262_144, images=True, one_system=True),
}

VENDOR = Vendor(
    name="openai_chat",
    wire="openai_chat",
    base_url="https://api.openai.com/v1",
    base_url_env="OPENAI_BASE_URL",
    # A server of one's own gets no key unless api_key_env names one.
    auth=Auth(key_env="OPENAI_API_KEY", hosts=r"https://([\w-]+\.)?api\.openai\.com([:/]|$)"),
    models=MODELS,
    any_model=True,
    # Every server takes one system message; the templates of many open models refuse a second one.
    unknown_model=Abilities(one_system=True),
    guidance={"grok-4.3": Guidance(stop=False)},
    families=(
        Family(r"llama-?2|codellama|mistral-(7b|tiny)|mi[sx]tral-8x|mixtral|codestral", factor=1.3, error=0.3),
        Family(r"llama", factor=1.02, error=0.1),
        Family(r"qwen|qwq", factor=1.06, error=0.15),
        Family(r"mistral|ministral|magistral|devstral|pixtral", factor=1.1, error=0.15),
    ),
    embeddings=True,
)
