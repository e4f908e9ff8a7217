"""How people say what they do, wear and are like."""

from __future__ import annotations

from contextinfinity.memory.phrases import AM, NOW, row

_FIELDS = (
    r"(?:marketing|sales|finance|accounting|banking|insurance|(?-i:IT)|tech|software|hr|healthcare|nursing|education"
    r"|retail|logistics|construction|hospitality|advertising|journalism|publishing|politics|academia|consulting"
    r"|real estate|customer (?:service|support)|human resources|public relations|social work|aviation|film|tourism)"
)
_AIDS = r"(?:an? wheelchair|(?:reading )?glasses|contact lenses|contacts|(?:a )?hearing aids?|a pacemaker|a prosthesis)"
_STOPPED = r"\bi(?:'ve| have)? (?:just |recently |finally )?(?:quit|stopped|given up|gave up)"

HABITS = (
    row("self", 6, "field", "The user works in {x}", rf"\bi {NOW}work in (?P<x>{_FIELDS})(?=\W|$)",
        rf"{AM}{NOW}(?:working )?in (?P<x>{_FIELDS})(?=\s*[.,;!]|$)"),
    row("self", 6, "marital", "The user is {x}", rf"{AM}(?P<x>a widow(?:er)?)\b"),
    row("self", 6, "handed", "The user is {x}", rf"{AM}(?:actually )?(?P<x>(?:left|right)[- ]handed)\b",
        rf"{AM}(?P<x>a (?:left|right)[- ]hander)\b"),
    row("self", 6, "is:{k}", "The user {v}s {x}", rf"\bi {NOW}(?P<v>use|wear) (?P<x>{_AIDS})(?=\s*[.,;!]|$"
        rf"|\s+(?:and|so|but)\b)"),
    row("self", 5, "my:height", "The user is {x} tall",
        rf"{AM}(?P<x>\d(?:[.,]\d{{1,2}})? ?(?:m|metres|meters)|\d{{3}} ?(?:cm|centimet(?:re|er)s)|\d(?: foot|'"
        rf"| feet)(?: ?\d{{1,2}}\"?)?) tall\b"),
    row("self", 5, "is:smoker", "The user does not {x}e",
        r"\bi (?:don't|do not|no longer|never) (?P<x>smok)e(?: any ?more)?(?=\s*[.,;!]|$|\s+(?:and|so|but)\b)",
        rf"{_STOPPED} (?P<x>smok)ing\b(?! (?:weed|pot|meat|fish|cigars))"),
    row("self", 5, "is:smoker", "The user smokes",
        r"\bi (?:still |now )*(?P<x>smoke)(?: again| now)?(?=\s*[.,;!]|$)",
        r"\bi(?:'ve| have)? started (?P<x>smok)ing again\b"),
)  # fmt: skip
