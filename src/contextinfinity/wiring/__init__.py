"""Create and connect all components: the only module that names concrete stores and providers."""

from __future__ import annotations

import dataclasses
import os
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from contextinfinity.errors import LedgerFull, LedgerLost, LedgerReadOnly, SettingsError
from contextinfinity.wiring.embedding import retrieval_of
from contextinfinity.wiring.redactors import load_redactor

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from contextinfinity.client.local import LocalClient
    from contextinfinity.compat.ledger_threads import RedisThreads
    from contextinfinity.compat.threads import InProcessThreads, ThreadLog
    from contextinfinity.domain.message import Json
    from contextinfinity.engine.engine import Engine
    from contextinfinity.engine.engine_setup import FindBoundary, Remembering, Rewriting, Setup
    from contextinfinity.engine.folding import Folding
    from contextinfinity.engine.model_choice import Model, Models
    from contextinfinity.librarian.contract import Librarian
    from contextinfinity.prompt.measure import Ceilings
    from contextinfinity.providers.auxiliary_model import AuxiliaryModel
    from contextinfinity.providers.contract import Provider
    from contextinfinity.providers.remote import ProviderFactory
    from contextinfinity.settings import ModelSettings, Settings
    from contextinfinity.storage.contract import Store
    from contextinfinity.storage.copies import Copies, ThreadCopy
    from contextinfinity.storage.standby.store import StandbyStore
    from contextinfinity.tools.toolbox import Toolbox


UNKNOWN_MODEL_TRIGGER = 12_000
"""Tokens of turns from which on a thread is folded whose model we do not know: half of what its context may take."""


def open_engine(settings: Settings | None = None, *, data_dir: str | Path | None = None) -> Engine:
    """Return an engine, to be used with ``async with``; without settings those of the machine are used.

    This is ``contextinfinity.open``.
    """
    from contextinfinity.settings import load_settings

    if settings is None:
        settings = load_settings(data_dir=None if data_dir is None else Path(data_dir)).settings
    return _engine(settings, open_standby(settings))


def _engine(settings: Settings, store: Store) -> Engine:
    from contextinfinity.engine.engine import Engine
    from contextinfinity.storage.journal import JournalFolder

    stream = settings.stream
    models = models_of(settings)
    journals = JournalFolder(
        settings.data_dir / "streams",
        flush_ms=stream.flush_ms,
        flush_bytes=stream.flush_bytes,
        fsync_ms=stream.fsync_ms,
        shared=store.journals,
    )
    return Engine(store, journals, models, setup_of(settings, models))


def setup_of(settings: Settings, models: Models) -> Setup:
    """Return how an engine of those models is set up beside its ledger."""
    from contextinfinity.engine.deleting import RetentionLimits
    from contextinfinity.engine.engine_setup import Setup
    from contextinfinity.engine.spending import DollarLimits, Spending

    folding = settings.compaction
    return Setup(
        tools=_toolbox(settings),
        ceilings=_ceilings(settings),
        redactor=load_redactor(settings.general),
        remembering=_remembering(settings, models),
        rewriting=_rewriting(settings, models),
        router=settings.router,
        retrieval=retrieval_of(settings),
        folds=folding.enabled,
        min_exchanges=folding.min_verbatim_exchanges,
        librarian=_librarian(settings, models),
        follow_model=_follow_model(settings),
        dollars=DollarLimits(
            per_day=settings.general.max_dollars_per_day, per_month=settings.general.max_dollars_per_month
        ),
        spending=Spending(settings.data_dir / "librarian.json", settings.librarian.max_tokens_per_day),
        find_boundary=_boundaries(settings, models),
        keep_journals=timedelta(minutes=settings.stream.keep_journal_minutes),
        clean_up_every=timedelta(hours=settings.retention.cleanup_interval_hours),
        retention=RetentionLimits(
            hours=settings.retention.hours,
            users={name: limit.hours for name, limit in settings.retention.users.items()},
            raw_response_hours=settings.retention.raw_response_hours,
        ),
        copies=copies_in(settings),
    )


def open_client(settings: Settings, *, in_memory: bool = False, ends_soon: bool = False) -> LocalClient:
    """Return a client with an engine of its own, to be used with ``async with``.

    ``in_memory``: on an empty ledger. ``ends_soon``: see ``open_store``.
    """
    from contextinfinity.client.local import LocalClient

    store = store_in_memory() if in_memory else open_standby(settings, ends_soon=ends_soon)
    return LocalClient(_engine(settings, store))


def holds_ledger(settings: Settings) -> bool:
    """Return whether a ledger is or was where the settings say; one that was lost is for the store to report."""
    from contextinfinity.storage.sqlite.identity import refuse_lost, remembered

    path = settings.ledger_path
    if path is None or path.exists() or (path.parent / "workers").exists():
        return True
    try:
        refuse_lost(path, remembered(path, settings.data_dir))
    except LedgerLost:
        return True
    return False


def open_store(settings: Settings, *, ends_soon: bool = False) -> Store:
    """Open the ledger that the settings name, to be closed by the caller; one that cannot be written is read only.

    A disk may be too full even for the files that SQLite needs beside a ledger. For a caller that ``ends_soon`` it is
    read without them: as a file without writers, which holds for as long as the disk is full.
    """
    path = settings.ledger_path
    if path is None:
        return _open_postgres(settings)
    from contextinfinity.storage.sqlite.store import SqliteStore

    try:
        return SqliteStore(path, data_dir=settings.data_dir)
    except (LedgerReadOnly, LedgerFull) as error:
        can_be_written = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
        is_full = ends_soon and isinstance(error, LedgerFull)
        if (can_be_written and not is_full) or not path.is_file():
            raise
        return SqliteStore(path, unwritable=error, data_dir=settings.data_dir)


def _open_postgres(settings: Settings) -> Store:
    try:
        from contextinfinity.storage.postgres.store import PostgresStore
    except ImportError as error:
        raise SettingsError(
            "storage.url names a PostgreSQL database, and its driver is not installed.",
            hint="Run: pip install 'contextinfinity[postgres]'",
        ) from error
    return PostgresStore(settings.ledger_url, settings.data_dir, serving_url=settings.storage.serving_url)


def begin_new(settings: Settings) -> list[Path]:
    """Let a data_dir that lost its ledger start over; return the remains, which are set aside.

    A ledger that is there is never touched.
    """
    from contextinfinity.storage.sqlite import identity

    path = settings.ledger_path
    return [] if path is None else identity.begin_new(path, settings.data_dir)


def open_standby(settings: Settings, *, ends_soon: bool = False) -> StandbyStore:
    """Open the ledger that the settings name, with a spool that holds what is said while it is away."""
    from contextinfinity.storage.standby.held_branches import Bounds
    from contextinfinity.storage.standby.store import StandbyStore
    from contextinfinity.upkeep.data_dir_checks import spool_folder

    ledger = open_store(settings, ends_soon=ends_soon)
    return StandbyStore(ledger, spool_folder(settings), Bounds(most_bytes=settings.storage.spool_mb << 20))


def copies_in(settings: Settings) -> Copies:
    """List the files outside the ledger from which deleted text is removed."""
    from contextinfinity.storage.copies import Copies, copies_of
    from contextinfinity.workspace.history_copies import WorkspaceHistories

    if settings.ledger_path is None:
        return Copies()
    histories = WorkspaceHistories(settings.data_dir)
    return copies_of(settings.data_dir, settings.ledger_path, histories, threads=_copied_threads(settings))


def _copied_threads(settings: Settings) -> ThreadCopy | None:
    """Return where the threads of the ledger are kept a second time; None: nowhere."""
    backends = {settings.storage.threads, settings.storage.threads_shadow} - {"off"}
    if "ledger" not in backends or len(backends) == 1:
        return None
    from contextinfinity.compat.thread_copies import CopiedThreads

    (other,) = backends - {"ledger"}
    return CopiedThreads(lambda: _erasable_threads(other, settings))


def store_in_memory() -> Store:
    """Create a temporary ledger."""
    from contextinfinity.storage.sqlite.store import SqliteStore

    return SqliteStore(None)


def folding_without_models(store: Store) -> Folding:
    """Return what folds branches of a ledger by rule, for callers whose own model is not known: with a large window."""
    from contextinfinity.engine.engine_setup import Setup
    from contextinfinity.engine.folding import Folding
    from contextinfinity.engine.model_choice import Model, Models
    from contextinfinity.providers.scripted import ScriptedProvider
    from contextinfinity.settings import load_settings

    settings = load_settings().settings
    ceilings = _ceilings(settings)
    setup = Setup(
        ceilings=replace(ceilings, fold_trigger=min(ceilings.fold_trigger, UNKNOWN_MODEL_TRIGGER)),
        redactor=load_redactor(settings.general),
        folds=settings.compaction.enabled,
        min_exchanges=settings.compaction.min_verbatim_exchanges,
    )
    unknown = Model(name="unknown", provider=ScriptedProvider([]), model_id="unknown")
    return Folding(store=store, models=Models(by_name={unknown.name: unknown}, default=unknown.name), setup=setup)


def open_threads(settings: Settings | None = None) -> ThreadLog:
    """Open what ``contextinfinity.threads`` keeps its turns in; without settings those of the machine count."""
    from contextinfinity.settings import load_settings

    settings = load_settings().settings if settings is None else settings
    storage = settings.storage
    main = _threads_in(storage.threads, settings)
    if storage.threads_shadow == "off":
        return main
    from contextinfinity.compat.shadow_threads import ShadowThreads, report_file

    return ShadowThreads(main, _threads_in(storage.threads_shadow, settings), report_file(settings.data_dir))


def _threads_in(backend: str, settings: Settings) -> ThreadLog:
    from contextinfinity.compat.ledger_threads import LedgerThreads

    return LedgerThreads(open_store(settings)) if backend == "ledger" else _erasable_threads(backend, settings)


def _erasable_threads(backend: str, settings: Settings) -> InProcessThreads | RedisThreads:
    from contextinfinity.compat.threads import IN_PROCESS

    if backend == "in_process":
        return IN_PROCESS
    try:
        from contextinfinity.compat.ledger_threads import RedisThreads
    except ImportError as error:
        raise SettingsError(
            "Threads are to be kept in Redis, and its client is not installed.",
            hint="Run: pip install 'contextinfinity[redis]'",
        ) from error
    return RedisThreads(settings.storage.redis_url)


def models_of(settings: Settings) -> Models:
    """Return every model the settings name, and the built-in one."""
    from contextinfinity.engine.model_choice import Models
    from contextinfinity.providers.local.provider import BUILT_IN_OPTIONS, built_in_provider
    from contextinfinity.providers.local.weights_file import SMOLLM2
    from contextinfinity.providers.remote import ProviderFactory
    from contextinfinity.settings import BUILT_IN

    lines, built_in = ProviderFactory(settings), built_in_provider(settings)
    models = {BUILT_IN: _model(BUILT_IN, SMOLLM2.model_id, built_in, settings, BUILT_IN_OPTIONS)}
    for name, said in settings.models.items():
        provider = _provider(name, said, settings, lines)
        models[name] = _model(name, said.model_id or name, provider, settings, said.options)
    return Models(by_name=models, default=settings.general.default_model)


def _provider(name: str, model: ModelSettings, settings: Settings, lines: ProviderFactory) -> Provider:
    from contextinfinity.providers.catalogue import overridden
    from contextinfinity.providers.local.provider import local_provider
    from contextinfinity.providers.remote import overrides
    from contextinfinity.providers.scripted import ABILITIES, ScriptedProvider, echo

    if model.provider == "local":
        return local_provider(name, model, settings)
    if model.provider == "scripted":
        abilities = overridden(ABILITIES, name, overrides(model))
        return ScriptedProvider(echo if model.path is None else Path(model.path), abilities)
    return lines.provider(model)


def _model(name: str, model_id: str, provider: Provider, settings: Settings, options: Json = None) -> Model:
    from contextinfinity.engine.model_choice import Model

    reserve = settings.budget.response_reserve_tokens
    return Model(name=name, provider=provider, model_id=model_id, reserve=reserve, options=options)


def _adviser(name: str, settings: Settings, models: Models) -> AuxiliaryModel | None:
    """Return the model that helps under that name; None: the work is done without one.

    ``auto`` is no model until a conversation has one (``_follow_model``).
    """
    from contextinfinity.settings import AUTO, BUILT_IN, OFFLINE

    if name == OFFLINE or (name == AUTO and AUTO not in models.by_name):
        return None
    if name == BUILT_IN:
        raise SettingsError(
            "The built-in model is too small for summaries, topic boundaries, rewriting and memories.",
            hint=f'Use another model, or "{OFFLINE}".',
        )
    return _adviser_for(models.named(name), settings)


def _adviser_for(model: Model, settings: Settings) -> AuxiliaryModel:
    from contextinfinity.providers.auxiliary_model import AuxiliaryModel

    seconds = settings.librarian.timeout_seconds
    return AuxiliaryModel(
        provider=model.provider,
        model_id=model.model_id,
        seconds=seconds,
        options=model.options,
        window=lambda: model.abilities.context_limit,
    )


def _librarian(settings: Settings, models: Models) -> Librarian | None:
    adviser = _adviser(settings.librarian.model, settings, models)
    if adviser is None:
        return None
    from contextinfinity.librarian.model_librarian import ModelLibrarian

    return ModelLibrarian(adviser)


def _follow_model(settings: Settings) -> Callable[[Setup, Model], Setup] | None:
    """Return how the stages whose setting is ``auto`` get the model that answers; the built-in one is too small."""
    from contextinfinity.engine.model_choice import Models
    from contextinfinity.settings import AUTO

    stages: dict[str, tuple[str, Callable[[Settings, Models], object]]] = {
        "librarian": (settings.librarian.model, _librarian),
        "find_boundary": (settings.compaction.detector_model, _boundaries),
        "rewriting": (settings.rewriter.model, _rewriting),
        "remembering": (settings.memory.model, _remembering),
    }
    auto = {stage: make for stage, (name, make) in stages.items() if name == AUTO}

    def follow_model(setup: Setup, model: Model) -> Setup:
        if model.provider.name == "local":
            return setup
        models = Models(by_name={AUTO: model}, default=AUTO)
        made: dict[str, Any] = {stage: make(settings, models) for stage, make in auto.items()}
        return dataclasses.replace(setup, **made)

    return follow_model if auto else None


def _boundaries(settings: Settings, models: Models) -> FindBoundary:
    from contextinfinity.engine.engine_setup import boundary_offline

    adviser = _adviser(settings.compaction.detector_model, settings, models)
    if adviser is None:
        return boundary_offline
    from contextinfinity.compaction.detector import detect

    return partial(detect, adviser)


def open_rewriting(settings: Settings | None = None) -> tuple[Rewriting, Callable[[], Awaitable[None]]]:
    """Return how messages are made explicit, and what closes it; without settings those of the machine count."""
    from contextinfinity.engine.model_choice import Models
    from contextinfinity.settings import AUTO, OFFLINE, load_settings

    settings = load_settings().settings if settings is None else settings
    none = Models(by_name={}, default=settings.general.default_model)
    models = none if settings.rewriter.model in (AUTO, OFFLINE) else models_of(settings)
    return _rewriting(settings, models), models.close


def remembered(settings: Settings | None = None) -> tuple[Settings, Remembering] | None:
    """Return by which settings memories are kept, and how; None if there is no ledger yet or memory is off."""
    from contextinfinity.engine.model_choice import Models
    from contextinfinity.settings import OFFLINE, load_settings

    settings = load_settings().settings if settings is None else settings
    path = settings.ledger_path
    if path is None or not path.is_file() or not settings.memory.enabled:
        return None
    none = Models(by_name={}, default=settings.general.default_model)
    offline = replace(settings, memory=replace(settings.memory, model=OFFLINE))
    remembering = _remembering(offline, none)
    return None if remembering is None else (settings, remembering)


def _remembering(settings: Settings, models: Models) -> Remembering | None:
    from contextinfinity.engine.engine_setup import Remembering

    said = settings.memory
    if not said.enabled:
        return None
    remembering = Remembering(
        expiry=timedelta(days=said.expiry_days),
        most=settings.budget.memory_snippet_chars,
        other_branches=said.other_branches,
    )
    adviser = _adviser(said.model, settings, models)
    if adviser is None:
        return remembering
    from contextinfinity.memory.model_extraction import ModelExtractor
    from contextinfinity.retrieval.dates import dates_mentioned
    from contextinfinity.text.polarity import opposed

    extractor = ModelExtractor(adviser, dates_mentioned, opposed, _hide(settings))
    return dataclasses.replace(remembering, extract=extractor.extract, asks_model=True)


def _rewriting(settings: Settings, models: Models) -> Rewriting:
    from contextinfinity.engine.engine_setup import Rewriting

    said = settings.rewriter
    rewriting = Rewriting(seconds=said.timeout_seconds, asks_back=said.clarification)
    adviser = _adviser(said.model, settings, models)
    if adviser is None:
        return rewriting
    from contextinfinity.rewriting import ModelRewriter

    # The model's own time-out comes first, so that the plan names the model.
    adviser = dataclasses.replace(adviser, seconds=0.9 * said.timeout_seconds)
    return dataclasses.replace(rewriting, rewrite=ModelRewriter(adviser, _hide(settings)).rewrite)


def _hide(settings: Settings) -> Callable[[str], str]:
    from contextinfinity.prompt.redact import hidden

    return partial(hidden, redactor=load_redactor(settings.general))


def _ceilings(settings: Settings) -> Ceilings:
    from contextinfinity.prompt.measure import Ceilings

    budget, folding = settings.budget, settings.compaction
    return Ceilings(
        reserve=budget.response_reserve_tokens,
        safety=budget.safety_margin_tokens,
        retrieval=budget.max_retrieval_tokens,
        summary=None if folding.summary_budget_tokens == "auto" else folding.summary_budget_tokens,
        pins=budget.pins_limit_tokens,
        fold_trigger=folding.compaction_trigger_tokens,
        verbatim_window=folding.verbatim_window_tokens,
    )


def _toolbox(settings: Settings) -> Toolbox:
    from contextinfinity.tools.toolbox import Toolbox

    tools = settings.tools
    return Toolbox(
        mode=tools.mode,
        allow_parallel=tools.allow_parallel,
        timeout_seconds=tools.timeout_seconds,
        max_rounds=tools.max_rounds,
        max_result_chars=tools.max_result_chars,
    )
