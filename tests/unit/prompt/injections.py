"""Attempts to get out of an artifact, and a reader that is as lenient as a model might be."""

from __future__ import annotations

import html
import json
import re
import unicodedata
from pathlib import Path
from urllib.parse import unquote

SAMPLES = Path(__file__).parents[2] / "samples" / "injections"
OPENING = re.compile(r'<artifact(?: [a-z-]+="[^"<>\n]*")+>')
CLOSING = "</artifact>"

_ANGLES = str.maketrans(dict.fromkeys("‹«〈《⟨⟪❮❬❰⦑⧼≺≪﹤˂ᐸ〈", "<") | dict.fromkeys("⁄∕╱⧸", "/") | {"¦": "|"})
_LETTERS = str.maketrans("аеорсіαιı", "aeopciaii")
_ESCAPES = re.compile(r"\\u00([0-9a-f]{2})|\\x([0-9a-f]{2})|[=%]([0-9a-f]{2})|\\(7[46])", re.I)


def attempts() -> list[tuple[str, str]]:
    """Return every attempt with its kind."""
    return [
        (file.stem, str(json.loads(line)))
        for file in sorted(SAMPLES.glob("*.jsonl"))
        for line in file.read_text(encoding="utf-8").splitlines()
    ]


def parsed(text: str) -> list[str]:
    """Read artifacts back, line by line; what is wrong with the structure is an error."""
    bodies: list[str] = []
    inside: list[str] | None = None
    for line in text.split("\n"):
        if inside is None:
            if line.startswith("<artifact"):
                assert OPENING.fullmatch(line), line
                inside = []
            else:
                assert CLOSING not in line, line
        elif line == CLOSING:
            bodies.append("\n".join(inside))
            inside = None
        else:
            assert line == "|" or line.startswith("| "), line
            inside.append(line[2:])
    assert inside is None, "every artifact is closed"
    return bodies


def lenient(text: str) -> str:
    """Return a text as a lenient reader sees it: decoded, plain characters, nothing hidden, no blanks."""
    for _ in range(6):
        text = _ESCAPES.sub(
            lambda found: chr(int(next(filter(None, found.groups()[:3]), "3c"), 16)), unquote(html.unescape(text))
        ).replace("+ADw-", "<")
    text = unicodedata.normalize("NFKD", text).translate(_ANGLES)
    text = text.translate(dict.fromkeys(map(ord, "\u2800\u3164\u115f\u1160\uffa0")))
    seen = [sign for sign in text if unicodedata.category(sign) not in ("Cf", "Cc", "Cs", "Mn", "Me", "Zs", "Zl", "Zp")]
    return re.sub(r"[.*_-]", "", "".join(seen).lower().translate(_LETTERS))


def words(text: str) -> str:
    """Leave the letters and digits, without the letters that pass for brackets."""
    return "".join(sign for sign in text if sign.isalnum() and sign not in "ᐸᐳ")
