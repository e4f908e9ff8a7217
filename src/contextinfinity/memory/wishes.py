"""How people state how they like to be answered. Orders to the assistant are not among them: they are no memories."""

from __future__ import annotations

from contextinfinity.memory.phrases import row

_ANSWERS = r"(?:answers|replies|responses|explanations)"

WISHES = (
    row("wish", 8, "answers:language", "The user wants answers in {x}",
         rf"\bi (?:prefer|want|like) (?:your |the |my )?{_ANSWERS} in (?P<x>(?-i:[A-Z])[a-z]{{3,20}})\b"),
    row("wish", 8, "answers:length", "The user wants {x} answers",
         r"\bi (?:prefer|want|like) (?:your |the |my )?(?P<x>short|brief|concise|long|detailed|simple)(?:er)?"
         rf" {_ANSWERS}\b"),
    row("wish", 8, "answers:units", "The user wants {x} units",
         r"\bi (?:use|prefer|want|think in) (?P<x>metric|imperial)\b"),
)  # fmt: skip
