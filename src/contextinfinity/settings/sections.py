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
    FoldingModel,
    HelperModel,
    Hours,
    Models,
    Names,
    Patterns,
    PostgresUrl,
    Price,
    RedisUrl,
    StoreUrl,
    Table,
    Tables,
    Text,
    Tokens,
    WebUrl,
)
from contextinfinity.settings.router_tables import Preferences, Rules
from contextinfinity.settings.server import Server
from contextinfinity.vendors import ProviderName


class Persona(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Instructions for a conversation under a name, and the model that answers in it."""

    system: Annotated[Text, Meta(description="The instructions.")]
    model: Annotated[ChatModel | None, Meta(description="The model; when not set, the default.")] = None


class General(Struct, frozen=True, kw_only=True):
    """The data folder, the default model, what to redact, and personas."""

    default_model: Annotated[ChatModel, Meta(description="The model that answers where nothing else is asked for.")] = (
        BUILT_IN
    )
    data_dir: Annotated[FilePath, Meta(description="The folder that holds everything.")] = "~/.contextinfinity"
    redact: Annotated[
        Names,
        Meta(
            description="Detectors of what never leaves the machine: api_keys, payment_cards, emails, phone_numbers, "
            "or an installed one."
        ),
    ] = ()
    redact_patterns: Annotated[
        Patterns, Meta(description="What never leaves the machine: matches are sent as [redacted], and kept as said.")
    ] = ()
    redact_with: Annotated[
        EntryPoint | None,
        Meta(description="A Python function that names what to hide: it is given a text and gives (start, end) pairs."),
    ] = None
    personas: Annotated[
        dict[str, Persona],
        Meta(
            description="Instructions that --persona NAME begins a conversation with.",
            extra={"form": "tables, each written as [general.personas.NAME]"},
        ),
    ] = field(default_factory=dict)


class BudgetSettings(Struct, frozen=True, kw_only=True):
    """How the model's context window is divided. The figures are upper limits; a small window gets less."""

    response_reserve_tokens: Annotated[Tokens, Meta(description="Room kept free for the answer.")] = 4000
    safety_margin_tokens: Annotated[Tokens, Meta(description="Room kept free for counting errors.")] = 1500
    max_retrieval_tokens: Annotated[Tokens, Meta(description="The most that retrieved text may take.")] = 6000
    pins_limit_tokens: Annotated[Tokens, Meta(description="The most that pinned facts may take.")] = 2000
    memory_snippet_chars: Annotated[
        int, Meta(ge=0, le=2000, description="The most characters that standing memories may take.")
    ] = 2000


class Stream(Struct, frozen=True, kw_only=True):
    """How a running answer is made durable."""

    flush_ms: Annotated[int, Meta(ge=1, le=60_000, description="Write the journal after this many milliseconds.")] = 250
    flush_bytes: Annotated[
        int, Meta(ge=1, le=16_777_216, description="Write the journal once this many bytes wait.")
    ] = 8192
    fsync_ms: Annotated[
        int, Meta(ge=1, le=600_000, description="Force the journal onto the disk this often, in milliseconds.")
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
        float, Meta(gt=0, le=86_400, description="A tool that takes longer is given up; the model is told.")
    ] = 60.0
    max_rounds: Annotated[
        int, Meta(ge=1, le=10_000, description="How often one turn may run tools before it is ended.")
    ] = 25
    max_result_chars: Annotated[
        int, Meta(ge=100, le=100_000_000, description="A longer result of a tool is cut to its two ends.")
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
            description="How many hits a search without a budget gives; 0: prompts get no retrieved text.",
        ),
    ] = 6
    overfetch_k: Annotated[int, Meta(ge=1, le=10_000, description="How many candidates to look at first.")] = 16
    similarity_threshold: Annotated[
        float, Meta(ge=0, le=1, description="The calibrated score a piece needs, after all adjustments.")
    ] = 0.72
    recency_boost: Annotated[float, Meta(ge=0, le=1, description="What the newest piece gains over the oldest.")] = 0.10
    enable_mmr: Annotated[bool, Meta(description="Prefer pieces that say different things.")] = True
    packing_target_tokens: Annotated[
        Tokens | Literal["auto"],
        Meta(
            description="How much retrieved text a prompt gets at most, if that much is relevant; auto: 1.5% of the "
            "model's window, between 400 and 2,000. budget.max_retrieval_tokens is the ceiling."
        ),
    ] = "auto"


class Compaction(Struct, frozen=True, kw_only=True):
    """When and how old turns are folded into the summary."""

    enabled: Annotated[bool, Meta(description="Fold old turns at all.")] = True
    compaction_trigger_tokens: Annotated[
        int, Meta(ge=1, le=10_000_000, description="Fold once the word-for-word part is longer than this.")
    ] = 24_000
    verbatim_window_tokens: Annotated[Tokens, Meta(description="What a fold leaves word for word.")] = 4000
    summary_budget_tokens: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | Literal["auto"],
        Meta(description="The most the whole summary may take; auto: 2% of the window, 400 to 4,000 tokens."),
    ] = "auto"
    min_verbatim_exchanges: Annotated[
        int, Meta(ge=0, le=1000, description="The last exchanges that a fold always leaves.")
    ] = 2
    detector_model: Annotated[HelperModel, Meta(description="The model that finds where the topic changed.")] = OFFLINE


class LibrarianSettings(Struct, frozen=True, kw_only=True):
    """The model that writes summaries."""

    model: Annotated[
        FoldingModel,
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
        float, Meta(gt=0, le=3600, description="How long it, or the model that finds topics, may take for one answer.")
    ] = 60.0


class RewriterSettings(Struct, frozen=True, kw_only=True):
    """How follow-up questions are rewritten."""

    model: Annotated[HelperModel, Meta(description="The model that rewrites follow-up questions.")] = OFFLINE
    timeout_seconds: Annotated[
        float, Meta(gt=0, le=60, description="How long that may take; then the message is taken as it was written.")
    ] = 5.0
    clarification: Annotated[
        bool, Meta(description="Ask back which of several is meant, where a message leaves that open; never on /v1.")
    ] = True


class MemorySettings(Struct, frozen=True, kw_only=True):
    """Memories across conversations."""

    enabled: Annotated[bool, Meta(description="Remember what users tell of themselves, and use it.")] = True
    model: Annotated[HelperModel, Meta(description="The model that draws memories from finished turns.")] = OFFLINE
    expiry_days: Annotated[
        int, Meta(ge=1, le=36_500, description="Days a memory lives after it was made or last placed in a prompt.")
    ] = 90
    other_branches: Annotated[
        bool, Meta(description="Use what was learned on branches that were left, also where nobody asked for it.")
    ] = False


class RetentionLimit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long the turns of one user are kept."""

    hours: Annotated[Hours, Meta(description="The hours.")]


class Retention(Struct, frozen=True, kw_only=True):
    """How long conversations and our own backups are kept. Of several times the shortest one applies."""

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
    conversation_ttl_hours: Annotated[Hours, Meta(description="Hours after which a turn of /chat is deleted.")] = 24.0
    cleanup_interval_hours: Annotated[Hours, Meta(description="Hours between two clean-ups.")] = 6.0
    history_limit: Annotated[
        int, Meta(ge=1, le=50, description="How many of the newest turns /chat loads for a request.")
    ] = 20
    stateless: Annotated[
        bool, Meta(description="Whether /chat keeps nothing and loads nothing; what is stored stays stored.")
    ] = False
    backups_kept: Annotated[
        int,
        Meta(ge=0, le=10_000, description="How many backups in backups/ are kept: older ones are removed; 0: all."),
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
        Literal["in_process", "ledger", "redis"], Meta(description="What contextinfinity.threads keeps its turns in.")
    ] = "in_process"
    threads_shadow: Annotated[
        Literal["off", "in_process", "ledger", "redis"],
        Meta(description="A second place that gets the same turns, to compare what both read back."),
    ] = "off"
    spool_mb: Annotated[
        int, Meta(ge=1, le=65_536, description="The most megabytes that are held on disk while the ledger is away.")
    ] = 64
    redis_url: Annotated[RedisUrl, Meta(description="The Redis server, where one is used.")] = (
        "redis://localhost:6379/0"
    )


class Router(Struct, frozen=True, kw_only=True):
    """Which model answers a request if the caller names none."""

    enabled: Annotated[
        bool, Meta(description="Let rules, preferences and fallbacks choose; without them the branch's model answers.")
    ] = True
    fallbacks: Annotated[
        Models, Meta(description="Who answers, in this order, when the model that should cannot, or fails.")
    ] = ()
    rules: Annotated[
        Rules, Meta(description="What is answered by another model; the first rule that holds counts.")
    ] = ()
    users: Annotated[
        Preferences,
        Meta(
            description="The model that a user's conversations begin with.",
            extra={"form": "tables, each written as [router.users.NAME]"},
        ),
    ] = field(default_factory=dict)
    orgs: Annotated[
        Preferences,
        Meta(
            description="The same for an organisation; a user's goes before it.",
            extra={"form": "tables, each written as [router.orgs.NAME]"},
        ),
    ] = field(default_factory=dict)


class OpenAI(Struct, frozen=True, kw_only=True):
    """Options for every request to OpenAI."""

    truncation: Annotated[
        Literal["disabled", "auto"], Meta(description="Whether OpenAI may silently shorten a prompt that is too long.")
    ] = "disabled"
    store: Annotated[bool, Meta(description="Let OpenAI keep the conversation.")] = False
    parallel_tool_calls: Annotated[
        bool, Meta(description="Let one answer call several tools, even where tools.allow_parallel is false.")
    ] = False
    provider_conversations: Annotated[
        bool,
        Meta(description="Let a model's options name previous_response_id or conversation: state that OpenAI keeps."),
    ] = False


class Anthropic(Struct, frozen=True, kw_only=True):
    """Options for every request to Anthropic."""

    disable_parallel_tool_use: Annotated[
        bool, Meta(description="One tool call at a time, unless tools.allow_parallel is true.")
    ] = True


class Local(Struct, frozen=True, kw_only=True):
    """How local models run."""

    threads: Annotated[
        int, Meta(ge=1, le=1024, description="Processors that a model takes; more than are idle make it slower.")
    ] = 1
    unload_minutes: Annotated[
        float, Meta(gt=0, le=525_600, description="Minutes without a question after which a model's memory is freed.")
    ] = 15.0
    models_dir: Annotated[
        FilePath | None,
        Meta(description="The folder for the weights that `cix model get` fetches; when not set, models in data_dir."),
    ] = None


class ModelSettings(Struct, frozen=True, kw_only=True):
    """One model, under a name of your choice. There can be any number."""

    provider: Annotated[
        ProviderName,
        Meta(description="Who runs it, and so which wire format it speaks."),
    ]
    model_id: Annotated[Text | None, Meta(description="What the provider calls the model.")] = None
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
            "--keyring`); the environment goes before it."
        ),
    ] = False
    base_url: Annotated[
        WebUrl | None, Meta(description="Where it is served, if not at the provider's own address.")
    ] = None
    path: Annotated[
        FilePath | None, Meta(description="The file of a local model, or the script of a scripted one.")
    ] = None
    options: Annotated[
        Table | None, Meta(description="What is passed on to the provider with every request, as it is.")
    ] = None
    provider_tools: Annotated[
        Tables | None,
        Meta(description="The provider's own tools it may use (web search and the like), as the provider writes them."),
    ] = None
    timeout_seconds: Annotated[
        float, Meta(gt=0, le=86_400, description="How long the provider may say nothing before it counts as lost.")
    ] = 600.0
    attempts: Annotated[
        int, Meta(ge=1, le=20, description="How often it is asked when it is overloaded or cannot be reached.")
    ] = 4
    max_output_tokens: Annotated[
        Annotated[int, Meta(ge=1, le=10_000_000)] | None, Meta(description="The longest answer it can give, in tokens.")
    ] = None
    tools: Annotated[bool | None, Meta(description="Whether it can call tools.")] = None
    images: Annotated[bool | None, Meta(description="Whether it can see pictures.")] = None
    files: Annotated[bool | None, Meta(description="Whether it can read files such as PDFs.")] = None
    reasoning: Annotated[bool | None, Meta(description="Whether it thinks before it answers.")] = None
    one_system: Annotated[bool | None, Meta(description="Whether it takes a single system message only.")] = None
    dimensions: Annotated[
        Annotated[int, Meta(ge=1, le=65_536)] | None,
        Meta(description="How many numbers its vectors have, where it makes vectors and is not known."),
    ] = None
    min_cache_tokens: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None, Meta(description="Shorter prefixes it does not cache.")
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
