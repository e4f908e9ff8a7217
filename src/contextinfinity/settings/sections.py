"""Every setting with its default, its range and its meaning, declared once.

One class is one section of ``config.toml``, one field is one key. The ``Meta`` of a field describes it; the description
is printed in the reference. ``field_types`` holds shared types.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from contextinfinity.errors import SettingsError
from contextinfinity.settings.field_types import (
    AUTO,
    BUILT_IN,
    MINILM,
    OFFLINE,
    SQLITE,
    STATIC,
    ChatModel,
    EntryPoint,
    EnvironmentName,
    FilePath,
    HelperModel,
    Hours,
    Models,
    Names,
    Patterns,
    PostgresUrl,
    Preferences,
    Price,
    RedisUrl,
    Rules,
    Seconds,
    StoreUrl,
    Table,
    Tables,
    Text,
    Tokens,
    WebUrl,
)
from contextinfinity.vendors import ProviderName


class Server(Struct, frozen=True, kw_only=True):
    """Where `cix serve` listens, and its limits."""

    host: Annotated[Text, Meta(description="The address to listen on; any other than loopback requires a token.")] = (
        "127.0.0.1"
    )
    port: Annotated[int, Meta(ge=0, le=65_535, description="The port; 0: any free port.")] = 8765
    workspace: Annotated[
        FilePath | None, Meta(description="The folder of the repository for conversations on /rpc.")
    ] = None
    workers: Annotated[int, Meta(ge=1, le=64, description="The number of worker processes.")] = 1
    allowed_hosts: Annotated[
        Names,
        Meta(
            description="Names under which it may be called, beside its own address; on loopback any other is refused, "
            "elsewhere only once names are given."
        ),
    ] = ()
    cors_origins: Annotated[
        Names, Meta(description="Web pages that may call it from a browser, as https://example.org; none by default.")
    ] = ()
    max_body_bytes: Annotated[
        int, Meta(ge=1024, le=1_073_741_824, description="The largest request; a larger one is refused with 413.")
    ] = 16_777_216
    max_import_bytes: Annotated[
        int, Meta(ge=1024, le=1_099_511_627_776, description="The largest file that POST /import takes.")
    ] = 4_294_967_296
    max_message_chars: Annotated[
        int, Meta(ge=1, le=100_000_000, description="The longest message; a longer one is refused with 413.")
    ] = 1_000_000
    max_header_bytes: Annotated[
        int, Meta(ge=1024, le=1_048_576, description="The maximum size of the headers of a request.")
    ] = 32_768
    header_seconds: Annotated[Seconds, Meta(description="The timeout for the headers of a request.")] = 10.0
    body_seconds: Annotated[Seconds, Meta(description="The timeout for the body of a request.")] = 60.0
    requests_per_minute: Annotated[
        int, Meta(ge=0, le=100_000_000, description="Requests per minute of one user, over all tokens; 0: unlimited.")
    ] = 6000
    streams_per_user: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Streams that one user may have open at once.")
    ] = 200
    keep_alive_seconds: Annotated[Seconds, Meta(description="The interval of keep-alive comments on idle streams.")] = (
        15.0
    )
    stall_seconds: Annotated[
        Seconds, Meta(description="A client that reads nothing for this long is disconnected; it can resume.")
    ] = 60.0
    leave_seconds: Annotated[
        Seconds,
        Meta(description="How long generation continues after a /v1 client disconnects; a retry joins it."),
    ] = 10.0
    shutdown_seconds: Annotated[Seconds, Meta(description="How long running answers may continue at shutdown.")] = 20.0


class Persona(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Instructions for a conversation under a name, and the model that answers in it."""

    system: Annotated[Text, Meta(description="The instructions.")]
    model: Annotated[ChatModel | None, Meta(description="The model; when not set, the default.")] = None


class General(Struct, frozen=True, kw_only=True):
    """The data folder, the default model, what to redact, and personas."""

    default_model: Annotated[ChatModel, Meta(description="The model that answers if no other is requested.")] = BUILT_IN
    data_dir: Annotated[FilePath, Meta(description="The folder with the ledger and all other data.")] = (
        "~/.contextinfinity"
    )
    max_dollars_per_day: Annotated[
        Price | None,
        Meta(description="What models may cost a user a day (UTC), in US dollars; when not set, there is no limit."),
    ] = None
    max_dollars_per_month: Annotated[
        Price | None,
        Meta(description="What models may cost a user a month (UTC), in US dollars; when not set, there is no limit."),
    ] = None
    redact: Annotated[
        Names,
        Meta(
            description="Detectors of what never leaves the machine: api_keys, payment_cards, emails, phone_numbers, "
            "or an installed one."
        ),
    ] = ()
    redact_patterns: Annotated[
        Patterns,
        Meta(
            description="Regular expressions of text that never leaves the machine: matches are sent as "
            "[redacted] and stored unchanged."
        ),
    ] = ()
    redact_with: Annotated[
        EntryPoint | None,
        Meta(
            description="A Python function that finds text to redact: it takes a string and returns (start, end) pairs."
        ),
    ] = None
    personas: Annotated[
        dict[str, Persona],
        Meta(
            description="Instructions for new conversations, chosen with --persona NAME.",
            extra={"form": "tables, each written as [general.personas.NAME]"},
        ),
    ] = field(default_factory=dict)


class BudgetSettings(Struct, frozen=True, kw_only=True):
    """How the model's context window is divided. The figures are upper limits; a small window gets less."""

    response_reserve_tokens: Annotated[Tokens, Meta(description="Tokens reserved for the answer.")] = 4000
    safety_margin_tokens: Annotated[Tokens, Meta(description="Tokens reserved for counting errors.")] = 1500
    max_retrieval_tokens: Annotated[Tokens, Meta(description="The maximum number of tokens of retrieved text.")] = 6000
    pins_limit_tokens: Annotated[Tokens, Meta(description="The maximum number of tokens of pinned facts.")] = 2000
    memory_snippet_chars: Annotated[
        int, Meta(ge=0, le=2000, description="The maximum number of characters of standing memories.")
    ] = 2000


class Stream(Struct, frozen=True, kw_only=True):
    """How a running answer is made durable."""

    flush_ms: Annotated[int, Meta(ge=1, le=60_000, description="Write the journal after this many milliseconds.")] = 250
    flush_bytes: Annotated[
        int, Meta(ge=1, le=16_777_216, description="Write the journal when this many bytes are buffered.")
    ] = 8192
    fsync_ms: Annotated[
        int, Meta(ge=1, le=600_000, description="The interval between fsyncs of the journal, in milliseconds.")
    ] = 2000
    keep_journal_minutes: Annotated[
        int, Meta(ge=0, le=525_600, description="How long a finished stream can still be resumed.")
    ] = 60


class Tools(Struct, frozen=True, kw_only=True):
    """Whether and how models may call tools."""

    mode: Annotated[
        Literal["disabled", "parse_only", "enabled"],
        Meta(description="disabled: no tool is offered; parse_only: calls are shown, not run; enabled: calls are run."),
    ] = "disabled"
    allow_parallel: Annotated[
        bool, Meta(description="Let one answer call several tools, and run them at the same time.")
    ] = False
    timeout_seconds: Annotated[
        float, Meta(gt=0, le=86_400, description="The timeout of a tool call; the model gets an error after it.")
    ] = 60.0
    max_rounds: Annotated[int, Meta(ge=1, le=10_000, description="The maximum number of tool rounds in one turn.")] = 25
    max_result_chars: Annotated[
        int, Meta(ge=100, le=100_000_000, description="Longer tool results are shortened in the middle.")
    ] = 200_000


class RetrievalSettings(Struct, frozen=True, kw_only=True):
    """How earlier messages are retrieved for a prompt."""

    embedding_model: Annotated[
        Text,
        Meta(
            description=f"The model that makes vectors: {BUILT_IN} ({MINILM} where its weights are on this machine, "
            f"else {STATIC}), {MINILM}, {STATIC} (quickest), a [models.NAME], or OpenAI's own name of one."
        ),
    ] = BUILT_IN
    top_k: Annotated[
        int,
        Meta(
            ge=0,
            le=1000,
            description="The number of results of a search without a budget; 0: prompts get no retrieved text.",
        ),
    ] = 6
    overfetch_k: Annotated[int, Meta(ge=1, le=10_000, description="The number of candidates to rank.")] = 16
    similarity_threshold: Annotated[
        float, Meta(ge=0, le=1, description="The minimum calibrated score of a chunk, after all adjustments.")
    ] = 0.72
    recency_boost: Annotated[
        float, Meta(ge=0, le=1, description="The score bonus of the newest chunk over the oldest.")
    ] = 0.10
    enable_mmr: Annotated[
        bool, Meta(description="Prefer chunks that differ from each other (maximal marginal relevance).")
    ] = True
    packing_target_tokens: Annotated[
        Tokens | Literal["auto"],
        Meta(
            description="The maximum tokens of retrieved text in a prompt; less is used if less is relevant. auto: "
            "1.5% of the model's window, between 400 and 2,000. budget.max_retrieval_tokens is the upper limit."
        ),
    ] = "auto"


class Compaction(Struct, frozen=True, kw_only=True):
    """When and how old turns are folded into the summary."""

    enabled: Annotated[bool, Meta(description="Whether old turns are folded into a summary.")] = True
    compaction_trigger_tokens: Annotated[
        int, Meta(ge=1, le=10_000_000, description="Fold when the verbatim part is longer than this.")
    ] = 24_000
    verbatim_window_tokens: Annotated[Tokens, Meta(description="The length of the verbatim part after a fold.")] = 4000
    summary_budget_tokens: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | Literal["auto"],
        Meta(description="The maximum length of the summary; auto: 2% of the window, 400 to 4,000 tokens."),
    ] = "auto"
    min_verbatim_exchanges: Annotated[
        int, Meta(ge=0, le=1000, description="The number of newest exchanges that are never folded.")
    ] = 2
    detector_model: Annotated[
        HelperModel,
        Meta(
            description="The model that finds topic boundaries; auto: the conversation's own, as for librarian.model."
        ),
    ] = OFFLINE


class LibrarianSettings(Struct, frozen=True, kw_only=True):
    """The model that writes summaries."""

    model: Annotated[
        HelperModel,
        Meta(
            description="The model that writes summaries; auto: the one that answered the newest turn, unless that is "
            "the built-in one; offline: none, they are made by rule."
        ),
    ] = AUTO
    max_tokens_per_day: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000_000_000,
            description="Tokens that summaries may use on one day; above that they are made by rule until the next.",
        ),
    ] = 2_000_000
    timeout_seconds: Annotated[
        float,
        Meta(
            gt=0,
            le=3600,
            description="The timeout of one request to the librarian or to the model that finds topic boundaries.",
        ),
    ] = 60.0


class RewriterSettings(Struct, frozen=True, kw_only=True):
    """How follow-up questions are rewritten."""

    model: Annotated[
        HelperModel,
        Meta(description="The model that rewrites follow-up questions; auto: the conversation's own."),
    ] = OFFLINE
    timeout_seconds: Annotated[
        float, Meta(gt=0, le=60, description="The timeout of a rewrite; after it the message is used unchanged.")
    ] = 5.0
    clarification: Annotated[
        bool, Meta(description="Ask a clarifying question if a message is ambiguous; never on /v1.")
    ] = True


class MemorySettings(Struct, frozen=True, kw_only=True):
    """Memories across conversations."""

    enabled: Annotated[bool, Meta(description="Extract memories about users and use them in prompts.")] = True
    model: Annotated[
        HelperModel,
        Meta(description="The model that extracts memories from finished turns; auto: the one that answered the turn."),
    ] = OFFLINE
    expiry_days: Annotated[
        int,
        Meta(ge=1, le=36_500, description="Days after its creation or last use in a prompt until a memory expires."),
    ] = 90
    other_branches: Annotated[
        bool, Meta(description="Use memories from abandoned branches even if the message does not ask for them.")
    ] = False


class RetentionLimit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long the turns of one user are kept."""

    hours: Annotated[Hours, Meta(description="The hours.")]


class Retention(Struct, frozen=True, kw_only=True):
    """How long conversations, raw responses and our own backups are kept. Of several times the shortest one applies."""

    hours: Annotated[Hours | None, Meta(description="Hours after which any turn is deleted; when not set, never.")] = (
        None
    )
    users: Annotated[
        dict[str, RetentionLimit],
        Meta(
            description="Hours after which any turn of a user is deleted.",
            extra={"form": "tables, each written as [retention.users.NAME]"},
        ),
    ] = field(default_factory=dict)
    raw_response_hours: Annotated[
        Hours | None,
        Meta(
            description="Hours after which the raw response of a provider is deleted, while its turn stays; "
            "when not set, it is kept as long as its turn."
        ),
    ] = None
    conversation_ttl_hours: Annotated[Hours, Meta(description="Hours after which a turn of /chat is deleted.")] = 24.0
    cleanup_interval_hours: Annotated[Hours, Meta(description="Hours between two clean-ups.")] = 6.0
    history_limit: Annotated[
        int, Meta(ge=1, le=50, description="How many of the newest turns /chat loads for a request.")
    ] = 20
    stateless: Annotated[
        bool, Meta(description="Whether /chat neither stores nor loads turns; stored turns are kept.")
    ] = False
    backups_kept: Annotated[
        int,
        Meta(
            ge=0, le=10_000, description="The number of backups kept in backups/; older ones are removed; 0: keep all."
        ),
    ] = 0


class Storage(Struct, frozen=True, kw_only=True):
    """Where conversations are stored."""

    url: Annotated[
        StoreUrl | None,
        Meta(
            description="The ledger; when not set, ledger.db in data_dir. A relative path after sqlite:/// counts "
            "from data_dir."
        ),
    ] = None
    serving_url: Annotated[
        PostgresUrl | None,
        Meta(
            description="The same PostgreSQL database with a role that owns nothing: what a request does runs as that "
            "role, under row-level security."
        ),
    ] = None
    threads: Annotated[
        Literal["in_process", "ledger", "redis"], Meta(description="The store of contextinfinity.threads.")
    ] = "in_process"
    threads_shadow: Annotated[
        Literal["off", "in_process", "ledger", "redis"],
        Meta(description="A second store that gets the same turns, to compare both."),
    ] = "off"
    spool_mb: Annotated[
        int,
        Meta(
            ge=1, le=65_536, description="The maximum size of the spool in megabytes while the ledger is unavailable."
        ),
    ] = 64
    redis_url: Annotated[RedisUrl, Meta(description="The Redis server, if one is used.")] = "redis://localhost:6379/0"


class Router(Struct, frozen=True, kw_only=True):
    """Which model answers a request if the caller names none."""

    enabled: Annotated[
        bool, Meta(description="Choose models by rules, preferences and fallbacks; if off, the branch's model answers.")
    ] = True
    fallbacks: Annotated[
        Models, Meta(description="The fallback models, in order, if the chosen model is unavailable or fails.")
    ] = ()
    rules: Annotated[Rules, Meta(description="Rules that choose another model; the first matching rule is used.")] = ()
    users: Annotated[
        Preferences,
        Meta(
            description="The default model of a user.",
            extra={"form": "tables, each written as [router.users.NAME]"},
        ),
    ] = field(default_factory=dict)
    orgs: Annotated[
        Preferences,
        Meta(
            description="The default model of an organisation; a user's own takes precedence.",
            extra={"form": "tables, each written as [router.orgs.NAME]"},
        ),
    ] = field(default_factory=dict)


class OpenAI(Struct, frozen=True, kw_only=True):
    """Options for every request to OpenAI."""

    truncation: Annotated[
        Literal["disabled", "auto"], Meta(description="Whether OpenAI may silently shorten a prompt that is too long.")
    ] = "disabled"
    store: Annotated[bool, Meta(description="Let OpenAI store the conversation.")] = False
    client_store: Annotated[
        bool,
        Meta(
            description="Let a client of `/v1` decide that for its requests; becomes false only if you set `store` to "
            "false yourself."
        ),
    ] = True
    parallel_tool_calls: Annotated[
        bool, Meta(description="Let one answer call several tools, even where tools.allow_parallel is false.")
    ] = False
    provider_conversations: Annotated[
        bool,
        Meta(
            description="Allow `previous_response_id` and `conversation` in a model's `options` (OpenAI then keeps the "
            "state)."
        ),
    ] = False


class Anthropic(Struct, frozen=True, kw_only=True):
    """Options for every request to Anthropic."""

    disable_parallel_tool_use: Annotated[
        bool, Meta(description="One tool call at a time, unless tools.allow_parallel is true.")
    ] = True


class Local(Struct, frozen=True, kw_only=True):
    """How local models run."""

    threads: Annotated[
        int,
        Meta(ge=1, le=1024, description="The number of CPU threads of a model; more than idle cores make it slower."),
    ] = 1
    unload_minutes: Annotated[
        float, Meta(gt=0, le=525_600, description="Idle minutes after which a model is unloaded.")
    ] = 15.0
    models_dir: Annotated[
        FilePath | None,
        Meta(description="The folder for the weights that `cix model get` fetches; when not set, models in data_dir."),
    ] = None


class ModelSettings(Struct, frozen=True, kw_only=True):
    """One model, under a name of your choice. There can be any number."""

    provider: Annotated[
        ProviderName,
        Meta(description="The vendor; it determines the wire format."),
    ]
    model_id: Annotated[Text | None, Meta(description="The provider's id of the model.")] = None
    context_limit: Annotated[
        Annotated[int, Meta(ge=2048, le=100_000_000)] | None,
        Meta(
            description="The size of its window, in tokens. A provider that rejects a request for its size lowers the "
            "window in use, until this figure is changed."
        ),
    ] = None
    api_key_env: Annotated[
        EnvironmentName | None, Meta(description="The environment variable that holds the key; never the key itself.")
    ] = None
    api_key_keyring: Annotated[
        bool,
        Meta(
            description="Whether the key is in the keyring of this user, under that variable's name (`cix setup "
            "--keyring`); the environment variable takes precedence."
        ),
    ] = False
    base_url: Annotated[WebUrl | None, Meta(description="The base URL, if it is not the provider's own.")] = None
    path: Annotated[
        FilePath | None, Meta(description="The file of a local model, or the script of a scripted one.")
    ] = None
    options: Annotated[
        Table | None, Meta(description="Options that are added unchanged to every request to the provider.")
    ] = None
    provider_tools: Annotated[
        Tables | None,
        Meta(
            description="Tools of the provider that the model may use (such as web search), in the provider's format."
        ),
    ] = None
    timeout_seconds: Annotated[
        float,
        Meta(gt=0, le=86_400, description="Seconds without data from the provider after which the request fails."),
    ] = 600.0
    attempts: Annotated[
        int, Meta(ge=1, le=20, description="The number of attempts if the provider is overloaded or cannot be reached.")
    ] = 4
    max_output_tokens: Annotated[
        Annotated[int, Meta(ge=1, le=10_000_000)] | None, Meta(description="The longest answer it can give, in tokens.")
    ] = None
    tools: Annotated[bool | None, Meta(description="Whether it supports tools.")] = None
    images: Annotated[bool | None, Meta(description="Whether it supports images.")] = None
    files: Annotated[bool | None, Meta(description="Whether it supports files such as PDFs.")] = None
    reasoning: Annotated[bool | None, Meta(description="Whether it is a reasoning model.")] = None
    one_system: Annotated[bool | None, Meta(description="Whether it accepts only one system message.")] = None
    dimensions: Annotated[
        Annotated[int, Meta(ge=1, le=65_536)] | None,
        Meta(description="The dimension of its vectors, for an embedding model that is not in the catalogue."),
    ] = None
    min_cache_tokens: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        Meta(description="The minimum length of a prefix that the provider caches, in tokens."),
    ] = None
    price_input: Annotated[Price | None, Meta(description="US dollars for a million tokens of input.")] = None
    price_output: Annotated[Price | None, Meta(description="US dollars for a million tokens of output.")] = None
    price_cached: Annotated[Price | None, Meta(description="The same for input read from its cache.")] = None
    price_cache_write: Annotated[Price | None, Meta(description="The same for input written to its cache.")] = None


class Settings(Struct, frozen=True, kw_only=True):
    """All settings. ``Settings()`` holds the defaults."""

    general: General = General()
    budget: BudgetSettings = BudgetSettings()
    stream: Stream = Stream()
    tools: Tools = Tools()
    retrieval: RetrievalSettings = RetrievalSettings()
    compaction: Compaction = Compaction()
    librarian: LibrarianSettings = LibrarianSettings()
    rewriter: RewriterSettings = RewriterSettings()
    memory: MemorySettings = MemorySettings()
    retention: Retention = Retention()
    storage: Storage = Storage()
    server: Server = Server()
    router: Router = Router()
    openai: OpenAI = OpenAI()
    anthropic: Anthropic = Anthropic()
    local: Local = Local()
    models: dict[str, ModelSettings] = field(default_factory=dict)

    @property
    def data_dir(self) -> Path:
        """The folder that holds all data."""
        return whole_path(self.general.data_dir, Path.cwd())

    @property
    def models_dir(self) -> Path:
        """The folder for downloaded model weights."""
        named = self.local.models_dir
        return self.data_dir / "models" if named is None else whole_path(named, Path.cwd())

    @property
    def ledger_path(self) -> Path | None:
        """The SQLite file of the ledger, or None if the ledger is a PostgreSQL database."""
        url = self.storage.url or f"{SQLITE}ledger.db"
        return whole_path(url.removeprefix(SQLITE), self.data_dir) if url.startswith(SQLITE) else None

    @property
    def ledger_url(self) -> str:
        """The URL of the ledger, set or default; the path after ``sqlite:///`` is absolute."""
        path = self.ledger_path
        return str(self.storage.url) if path is None else f"{SQLITE}{path}"


def whole_path(text: str | Path, folder: Path) -> Path:
    """Return an absolute path: ``~`` is expanded, and a relative path starts from ``folder``.

    Raises ``SettingsError`` if the home folder is unknown.
    """
    try:
        return folder / Path(text).expanduser()
    except RuntimeError as error:
        raise SettingsError(f"The home folder that {text} means is unknown.", hint="Write the whole path.") from error
