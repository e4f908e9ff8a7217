"""How people say that something is over: they left, sold, gave up, or it was never so.

A row with ``ends`` counts only where something is known that it ends: "I no longer live in Paris" says nothing of
somebody who lives in Berlin, and "Rex died" nothing where nobody knows a Rex.
"""

from __future__ import annotations

from contextinfinity.memory.phrases import AM, END, ILLNESS, JOB, NAME, NOW, OWN, POINTING, STATES, X, row

_NO_MORE = r"\b(?:i|we)(?:'m| am|'re| are)? (?:no longer|don't|do not|not|never|didn't ever)"
_GAVE_UP = r"\b(?:i|we)(?:'ve| have)? (?:just |recently |finally )?(?:stopped|quit|given up|gave up)"
_LEFT = r"\b(?:i|we)(?:'ve| have)? (?:just |recently |finally |now )*"
_FIRM = r"(?P<x>(?-i:[A-ZÀ-Þ0-9])[^,;:!?()\"]{1,50}?)" + END

ENDINGS = (
    row("self", 8, "", "The user no longer lives in {x}",
        rf"{_NO_MORE} (?:live|lived|living|based|reside) in {X}", rf"{_LEFT}moved (?:away from|out of|away out of) {X}",
        never=POINTING, ends=("home",)),
    row("self", 7, "", "The user no longer works at {x}",
        rf"{_NO_MORE} (?:work|worked|working|employed) (?:at|for|with|by) {_FIRM}",
        rf"{_LEFT}(?:quit|left|lost|resigned from) (?:my|the) (?:\w+ )?(?:job|position|post) (?:at|with|in) {_FIRM}",
        rf"{_GAVE_UP} working (?:at|for|with) {_FIRM}",
        rf"(?-i:{NAME})(?: has| have)?(?: just)? (?:fired|sacked|laid off|let go of|made redundant) me\b",
        rf"\bi(?:'ve been| was| got| have been) (?:laid off|fired|let go|made redundant) (?:from|by|at) {_FIRM}",
        ends=("employer",)),
    row("self", 7, "", "The user no longer {x}s where they did",
        r"\b(?:i|we) (?:no longer|don't|do not) (?P<x>work|live) there(?: any ?more| any longer)?(?=\W|$)",
        ends=("employer", "home")),
    row("self", 6, "marital", "The user and their partner {x}",
        r"\bmy (?:wife|husband|partner|girlfriend|boyfriend) and i (?:have )?(?:just |recently )?(?P<x>split up"
        r"|separated"
        r"|broke up|divorced)\b"),
    row("self", 7, "", "The user left {x}", rf"{_LEFT}left (?P<x>(?-i:[A-ZÀ-Þ])[\w' -]{{1,40}}?){END}",
        ends=("employer", "home")),
    row("self", 7, "employer", "The user {x} their job",
        rf"{_LEFT}(?P<x>quit|left|lost) my (?:\w+ )?job\b(?! (?:at|with|in)\b)"),
    row("self", 7, "employer", "The user works at {x}",
        rf"\b(?:changed|switched) (?:jobs|employers|companies)\b[^.!?]{{0,30}}?\bi(?:'m| am) (?:now )?(?:at"
        rf"|with) {_FIRM}"),
    row("self", 7, "", "The user no longer works as {x}",
        rf"{AM}(?:no longer|not) (?:actually )?(?P<x>an? {JOB})(?= (?:any|at|for|in|by|now)\b|\s*[.,;!]|$)",
        rf"{_GAVE_UP} (?:working as|being) (?P<x>an? {JOB})(?=\W|$)",
        ends=("job",)),
    row("self", 5, "", "The user no longer has {x}",
        rf"{_LEFT}(?:sold|got rid of|gave away|scrapped|returned) (?P<x>(?:the|my|our) [^,;:!?()\"]{{2,40}}?){END}",
        rf"\b(?:i|we) (?:bought|got) [^,;:.!?()\"]{{2,40}}? and sold (?P<x>(?:the|my|our) [^,;:!?()\"]{{2,40}}?){END}",
        rf"\b(?:i|we) no longer (?:have|own|drive) (?P<x>(?:the|my|our|an?|any) [^,;:!?()\"]{{2,40}}?){END}",
        r"\b(?:i|we) (?:don't|do not) (?:have|own|drive) (?P<x>(?:the|my|our|an?|any) [^,;:!?()\"]{2,40}?)"
        r" (?:any ?more|any longer)\b",
        ends=("drives", "has", "my")),
    row("self", 5, "", "The user's {x} died",
        rf"(?-i:{NAME})(?: has| had)?(?: just| recently| sadly)? (?:died|passed away)\b",
        r"\b(?:my|our) (?P<x>[\w -]{3,24}?)(?: has| had)?(?: just| recently| sadly)? (?:died|passed away)\b",
        ends=("my", "has")),
    row("preference", 4, "", "The user gave up {x}",
        rf"\bi(?:'ve| have)? (?:just |recently |finally )?(?:given up|gave up|cut out) (?!on\b|\w+ing\b){X}",
        never=POINTING, ends=("like", "eats", "plays", "learns", "uses")),
    row("self", 5, "", "The user's {p} is no longer {x}",
        rf"\bmy (?P<p>{OWN})(?:'s| is) (?:no longer|not) (?P<x>[^,;:!?()\"]{{2,40}}?)(?: any ?more)?(?=[.!]|$)",
        ends=("my",)),
    row("self", 5, "speaks:{k}", "The user does not speak {x}",
        r"\bi (?:don't|do not|can't|cannot|no longer) (?:actually )?speak (?:any )?(?P<x>(?-i:[A-Z])[a-z]{3,20})\b"),
    row("self", 8, "allergy:{k}", "The user is not allergic to {x}",
        r"\bmy (?P<x>[\w-]{3,20}) allergy (?:is|has)(?: \w+)? (?:gone|over|cured|disappeared|healed)\b",
        r"\bi (?:no longer have|don't have|do not have|never had) (?:an?|my|any) (?P<x>[\w-]{3,20}) allergy\b",
        r"\bi(?:'ve| have)? (?:outgrown|outgrew|lost) my (?P<x>[\w-]{3,20}) allergy\b"),
    row("self", 7, "is:{k}", "The user does not have {x}",
        rf"\bi (?:don't|do not|no longer|never) (?:actually |really )?(?:have|had|suffer from) (?:an? "
        rf"|any )?(?P<x>{ILLNESS})\b",
        ends=("is",)),
    row("self", 7, "is:{k}", "The user is not {x}", rf"{AM}(?:no longer"
        rf"|not) (?:actually )?(?P<x>{STATES})\b", ends=("is",)),
    row("self", 6, "marital", "The user is not {x}", rf"{AM}(?:no longer|not) (?P<x>married|single|engaged)(?=\W|$)"),
    row("preference", 4, "uses:{k}", "The user does not use {x}",
        rf"\b(?:i|we) (?:no longer|don't|do not) use (?P<x>(?-i:[A-Z])[\w .+#/-]{{1,40}}?){END}",
        rf"{_GAVE_UP} using (?P<x>(?-i:[A-Z])[\w .+#/-]{{1,40}}?){END}", never=POINTING),
    row("self", 4, "plays:{k}", "The user no longer plays {x}",
        rf"\bi (?:no longer|don't|do not) play (?:the )?(?P<x>[\w -]{{3,30}}?){END}",
        rf"{_GAVE_UP} playing (?:the )?(?P<x>[\w -]{{3,30}}?){END}", never=rf"{POINTING}|^(?:with|around|along"
        rf"|games)\b"),
    row("self", 4, "learns:{k}", "The user is no longer learning {x}",
        rf"{AM}(?:no longer|not) learning {X}", rf"{_GAVE_UP} (?:learning|trying to learn) {X}",
        rf"\bi {NOW}gave up on (?P<x>(?-i:[A-Z])[\w-]{{2,20}}){END}", never=POINTING),
)  # fmt: skip

_CHANGED = r"(?:is now|is actually|(?:has |was |has been )?changed to|became)"
CHANGES = (
    row("note", 7, "my:{p}", "The user's {p} is {x}",
        rf"\b(?:my|our|the) (?:new )?(?P<p>[\w'-]{{2,20}}(?: [\w'-]{{2,20}}){{0,2}}?) {_CHANGED} {X}",
        r"\b(?:my|our"
        r"|the) (?:new )?(?P<p>[\w'-]{2,20}(?: [\w'-]{2,20}){0,2}?) is (?P<x>[^,;:!?()\"]{2,60}?) now(?=\W*$)",
        ends=("my",)),
)  # fmt: skip
"""What was to be remembered, and is otherwise now; last of all, since most of it there is a better phrase for."""
