"""Many cases of one promise in one test: a test per case costs 4 ms of CPU in pytest, for thousands of cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def each(names: str | tuple[str, ...], cases: Iterable[object]) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Run a test for each case as ``pytest.mark.parametrize`` would, in one test that says which case failed.

    The test takes no fixtures: every parameter is named in ``names``.
    """
    parameters = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)

    def run_all(test: Callable[..., None]) -> Callable[[], None]:
        def run() -> None:
            for case in cases:
                values = case if len(parameters) > 1 else (case,)
                try:
                    test(**dict(zip(parameters, values, strict=True)))  # type: ignore[call-overload]
                except BaseException as error:
                    error.add_note(f"The case: {case!r}")
                    raise

        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        run.__dict__.update(test.__dict__)
        return run

    return run_all
