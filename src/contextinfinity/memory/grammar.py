"""A small grammar of statements about oneself: subject, adverbs, negation, verb, rest.

    I am a night nurse        a state, unless it is a mood or temporary
    I have two cats           a possession, unless it belongs to the conversation: "a question"
    I bake bread              the simple present is a habit, unless the verb is one of thinking or speaking
    I grew up in Lima         of the past tense only life events
    My sister paints          people, animals and things in the user's life

A clause with an open reference, a hypothetical or an overlong clause yields nothing. The word lists of each rule are in
``text/vocabulary``. The sentence is put into the third person; its words stay the user's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.memory import MemoryKind
from contextinfinity.memory.memory_findings import StatedFact, key_of
from contextinfinity.memory.third_person import LONGEST, sentence, thing, to_third_person
from contextinfinity.text.keywords import stem
from contextinfinity.text.vocabulary import phrases, words

ParsedStatement: TypeAlias = tuple[MemoryKind, str, str]
"""The kind of a fact, the fact, and its subject key."""

MOST_WORDS: Final = 22
"""The maximum number of words of a clause; a longer one is a story."""

_W: Final = words("en", "first_person")
_JOINING: Final = "and|but|so|because|since|although|though|while|plus|cause|that"
_SUBJECT: Final = re.compile(rf"(?:^|^(?:on )?\w+days? |[,;:(–—-]\s+|\b(?:{_JOINING})\s+)(?P<s>i|we|my|our)\b", re.I)
_TAIL: Final = re.compile(rf"(?:,|\s+(?:{_JOINING}))+\s*$", re.I)
_BORDER: Final = re.compile(
    r"[;!?()\"]|\.(?:\s|$)|\s[-–—]+\s|,? (?:but|because|although|though|which|so that|so|unless|until)\s"
    r"|, (?:always|ever)\s| and (?:(?:the|my|our|her|his|its) )?[\w']+ (?:has|have|is|are|was|were)\b"
)
_BE: Final = re.compile(r"(?:i|we)(?:'m|'re| am| are|m) (?P<rest>.+)", re.I)
_PERFECT: Final = re.compile(r"(?:i|we)(?:'ve| have(?P<not>n't)?) (?P<rest>.+)", re.I)
_FOR_LONG: Final = re.compile(r"\b(?:for (?:\w+ ){1,3}(?:years|decades)|since (?:\d{4}|'\d\d|my|i was|the)\b)", re.I)
"""A duration or start date: then the state is permanent, whatever the verb is."""
_VERB: Final = re.compile(r"(?:i|we) (?P<rest>.+)", re.I)
_OWN: Final = re.compile(
    r"(?:my|our) (?P<what>[\w' -]{2,50}?)(?: (?P<verb>is|are|was|were|has|have|had)"
    r"|'s(?= (?:an?|the|called|named|allergic|from|in|\d)\b))(?: (?P<rest>.+))?$",
    re.I,
)
_OWN_DOES: Final = re.compile(
    r"(?:my|our) (?P<what>[\w'-]+(?: [\w'-]+){0,3}?) (?:just |recently |also |never |always |really |still )?"
    r"(?P<rest>(?:[a-z]{2,}s|love|like|live|work|own|play|hate|enjoy|died|passed|taught|raised|left|met|bought"
    r"|went|moved|gave|used to|does(?:n't| not)|do(?:n't| not)|got|fought|came|stayed|started"
    r"|graduated|married|won)(?: .+)?)$",
    re.I,
)
_FAVOURED: Final = re.compile(r"(?P<what>[\w' &-]{3,60}?) (?P<verb>is|are) (?:one of )?my (?P<rest>[\w'-]+.*)$", re.I)
_HAD: Final = re.compile(
    r"(?:(?:got|owned|had) )?(?:no |an? |two |three |four |five |six |\d+ |several |many |lots of |some |the |my |only "
    r"|any |one |both |over )?",
    re.I,
)
_FOR_NOW: Final = re.compile(r"\bto (?!my|the|our|a|church|school|work)[a-z]+|\bfriends who\b", re.I)
"""A possession for a momentary purpose, or with a statement of its own."""
_BEEN: Final = re.compile(
    r"been (?:an? (?!bit|little|while)|in|to|married|together|single|vegan|vegetarian|sober|retired|divorced|working"
    r"|living|playing|teaching|studying|training|learning|dancing|singing)\b.{4}",
    re.I,
)
_LOOSE: Final = re.compile(
    r"(?!very |really )[\w-]+,? (?!and|or|but|at|of|to|with|in|for|by|about|as|on|around|compared)\w", re.I
)
"""Two words without a connecting word: "single threaded"."""
_CANNOT: Final = re.compile(
    r"(?:really |just |still )?(?P<can>can't|cannot|can not|cant|can) (?P<verb>\w+)(?: (?P<rest>.+))?$", re.I
)
_THE: Final = re.compile(r"the (?:(?:movie|band|show|song|book|game) )?(\w+)")
_THAT: Final = re.compile(r"(?:^|\b(?:do|did|like|love|of|with|about|to|in|for|on|than|and) )that\b|\bthat\W*$", re.I)
"""A demonstrative "that"; in "a son that sings" it is a relative pronoun."""
_NAME: Final = re.compile(r"([A-Z][\w'-]+(?: [A-Z][\w'-]+)?)(?=[,.!]|$| and | from )")
_FIRST_NAMES: Final = frozenset[str]().union(*words("names", "first_names").values())
_ENDED: Final = re.compile(r"(?P<how>stopped|quit|gave up) (?P<verb>[a-z]+)ing(?: (?P<rest>.+))?$", re.I)
_OVER: Final = ("The user no longer ", "The user stopped ", "The user quit ", "The user gave up ")
"""How a fact begins that ends another one; it is stored only if there is a memory that it ends."""
_VERSION: Final = re.compile(r"\d\.\d|\w_\w|\w\(\)|\w/\w+/")
_VERBS_IN_LY: Final = ("fly", "apply", "reply", "supply", "rely", "multiply", "imply", "comply")
_ONCE: Final = re.compile(
    r"\b(?:at|by|until) (?:\d|noon|midnight|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\b"
    r"|\b(?:on|for|by|this|next) (?:mon|tues|wednes|thurs|fri|satur|sun)day\b",
    re.I,
)
"""A one-time date."""
_NEVER: Final = ("finished", "learned", "married", "met", "went", "attended", "graduated", "smoked", "drank")
_TOGETHER: Final = ("live", "raise", "keep", "rent", "adopted")
"""What "we" do at home; any other "we" is ambiguous."""


def _any(row: str) -> re.Pattern[str]:
    return re.compile("|".join(phrases("en", "first_person")[row]), re.I)


_DESPITE: Final = _any("despite_thinking")
_LASTING: Final = _any("lasting")
_NOT_LASTING: Final = _any("not_lasting")
_NOT_LIKED: Final = _any("not_liked")
_NOT_HABITS: Final = _any("not_habits")
_PAST_NEEDS: Final = _any("past_needs")


class _Clause(Struct, frozen=True):
    """A clause without the adverbs before its verb."""

    words: str
    denied: str = ""
    """The negation: "not", "never", "no longer"; empty if affirmative."""
    together: bool = False
    """Whether its subject is "we"."""

    @property
    def first(self) -> str:
        return self.words.split(" ", 1)[0].lower().rstrip(",.")

    @property
    def after(self) -> str:
        return self.words.partition(" ")[2]

    @property
    def points(self) -> bool:
        """Whether it refers to something that it does not name."""
        return _is_deictic(self.words)


def habits_in(text: str) -> Iterator[StatedFact]:
    """Find what the clauses of a sentence state about the speaker."""
    if (match := _FAVOURED.match(text)) and (favoured := _favourite(match)) is not None:
        yield from _facts_of_clause(favoured, 0, len(text))
        return
    starts = [match.start("s") for match in _SUBJECT.finditer(text)]
    for start, limit in zip(starts, [*starts[1:], len(text)], strict=False):
        border = _BORDER.search(text, start, limit)
        clause = _TAIL.sub("", text[start : border.start() if border else limit].rstrip(" ,"))
        said = _parse(clause)
        if said is not None:
            yield from _facts_of_clause(said, start, start + len(clause))


def _facts_of_clause(said: ParsedStatement, start: int, end: int) -> Iterator[StatedFact]:
    kind, content, about = said
    content = sentence(content)
    if len(content) <= LONGEST and len(content.split()) >= 3:
        fact = StatedFact(content=content, start=start, end=end, kind=kind, about=about, weight=3, confidence=0.8)
        sort, _, named = about.partition(":")
        is_over = content.startswith(_OVER)
        yield replace(fact, ends=(sort,), named=tuple(named.split())) if is_over else fact


def _parse(text: str) -> ParsedStatement | None:
    said = {word.lower().strip(",.") for word in text.split()}
    if len(text.split()) > MOST_WORDS or not said.isdisjoint(_W["unsure"]) or "'d" in text or "'ll" in text:
        return None
    if not said.isdisjoint(_W["technical"]) or _VERSION.search(text) or _ONCE.search(text):
        return None
    together = text[:2].lower() == "we"
    if match := _BE.match(text):
        return _state(_clause(match["rest"], together))
    if match := _PERFECT.match(text):
        if match["not"] and not _FOR_LONG.search(text):
            return None
        return _perfect(_clause(f"not {match['rest']}" if match["not"] else match["rest"], together))
    if match := _VERB.match(text):
        able = _CANNOT.match(match["rest"])
        return _ability(able, together) if able else _habit(_clause(match["rest"], together))
    return _possessive(text)


def _clause(text: str, together: bool) -> _Clause:
    """Strip adverbs and negations from the front."""
    denied, left = "", text.split()
    while len(left) > 1:
        low, following = left[0].lower().strip(","), left[1].lower()
        if low in _W["denials"]:
            denied = "never" if low == "never" else "no longer" if following == "longer" else "not"
        elif not _is_adverb(low, following):
            break
        left = left[1:]
    return _Clause(" ".join(left), denied, together)


def _is_adverb(low: str, following: str) -> bool:
    if low == "do":
        return following in _W["preferences"] or following in ("not", "have", "live", "work")
    is_formed = low.endswith("ly") and low not in _VERBS_IN_LY and following.isalpha()
    return low in _W["adverbs"] or low == "longer" or is_formed


def _is_deictic(text: str) -> bool:
    said = [word.lower().strip(",.") for word in text.split()]
    return not _W["pointing"].isdisjoint(said) or said[-1:] == ["one"] or _THAT.search(text) is not None


def _state(clause: _Clause) -> ParsedStatement | None:
    """Parse "I am …"."""
    name = _NAME.match(clause.words)
    if name and name[1].split()[0].lower() in _FIRST_NAMES and not clause.denied:
        return "self", f"The user's name is {name[1]}", "name"
    if _NOT_LASTING.match(clause.words) or clause.points:
        return None
    if not _LASTING.match(clause.words) and (clause.together or not _is_trait(clause)):
        return None
    rest = to_third_person(thing(clause.words))
    return "self", f"The user is {f'{clause.denied} ' if clause.denied else ''}{rest}", f"is:{key_of(rest)}"


def _is_trait(clause: _Clause) -> bool:
    """Return whether an adjective describes a trait rather than a mood."""
    first = clause.first
    if first in _W["moods"] or not first.replace("-", "").isalpha() or _LOOSE.match(clause.words):
        return False
    return not first.endswith(("ing", "ed")) or first in _W["lasting_participles"]


def _perfect(clause: _Clause) -> ParsedStatement | None:
    """Parse "I have two cats" and "I've been a nurse for years", which begin alike."""
    is_participle = clause.first in _W["participles"] or clause.first.endswith(("ed", "en", "ung"))
    if not is_participle and not (clause.denied and _FOR_LONG.search(clause.words)):
        return _possession(clause)
    is_long = _FOR_LONG.search(clause.words) is not None
    lasts = is_long or clause.first in _W["perfect_lasting"] or _BEEN.match(clause.words)
    if clause.together or not (lasts or (clause.denied and clause.after)) or (clause.points and not is_long):
        return None
    rest = to_third_person(clause.words)
    return "self", f"The user has {clause.denied} {rest}", f"been:{key_of(rest)}"


def _possession(clause: _Clause) -> ParsedStatement | None:
    """Parse what follows "I have"."""
    counted = _HAD.match(clause.words)
    if counted is None or clause.points or clause.first == "to" or _FOR_NOW.search(clause.words):
        return None
    head = [word.lower().strip(",.") for word in clause.words[counted.end() :].split()[:4]]
    if not head or not _W["not_had"].isdisjoint(head) or (clause.together and _W["owned"].isdisjoint(head)):
        return None
    rest = to_third_person(thing(clause.words.removeprefix("got ")))
    return "self", f"The user {'does not have' if clause.denied else 'has'} {rest}", f"has:{key_of(rest)}"


def _habit(clause: _Clause) -> ParsedStatement | None:
    """Parse "I" and a verb."""
    verb, rest = clause.first, clause.after
    if not verb.isalpha() or verb in _W["modals"]:
        return None
    if verb in ("have", "own"):
        return _possession(_Clause(rest, clause.denied, clause.together)) if rest else None
    if _is_deictic(rest) or (clause.together and verb not in _W["preferences"] and verb not in _TOGETHER):
        return None
    if ended := _ENDED.match(clause.words):
        left = to_third_person(thing(ended["rest"] or ""))
        said = f"The user {ended['how'].lower()} {ended['verb']}ing {left}"
        return "self", said, f"{stem(ended['verb'] + 'ing')}:{key_of(left)}"
    if verb in _W["past"] or verb in _W["irregular_past"] or verb.endswith("ed"):
        lived = verb in _NEVER if clause.denied == "never" else _PAST_NEEDS.match(clause.words) and not clause.denied
        said = f"The user {clause.denied} {to_third_person(clause.words)}"
        return ("self", said, f"{verb}:{key_of(rest)}") if lived else None
    if (
        verb in _W["at_hand"]
        or _refers_to_conversation(rest)
        or (verb in _W["thinking"] and not _DESPITE.match(clause.words))
        or _NOT_HABITS.match(clause.words)
    ):
        return None
    return _verb_phrase(verb, to_third_person(thing(rest)) if rest else "", clause.denied)


def _refers_to_conversation(rest: str) -> bool:
    """Return whether "the …" refers to something in the conversation, not to a lasting habit or taste."""
    of = _THE.match(rest)
    return of is not None and of[1].lower() not in _W["the_liked"] and not of[1][0].isupper()


def _verb_phrase(verb: str, rest: str, denied: str) -> ParsedStatement | None:
    does = f"does not {verb}" if denied == "not" else f"{denied} {third_person_verb(verb)}".lstrip()
    if verb not in _W["preferences"]:
        return "self", f"The user {does} {rest}", f"{stem(verb)}:{key_of(rest)}"
    if not rest or _NOT_LIKED.match(rest):
        return None
    return "preference", f"The user {does} {rest}", f"like:{key_of(rest)}"


def _ability(able: re.Match[str], together: bool) -> ParsedStatement | None:
    """Parse "I can swim" and "I can't stand coriander"."""
    verb, rest = able["verb"].lower(), able["rest"] or ""
    if together or verb not in _W["abilities"] or _is_deictic(rest) or (verb == "do" and not rest):
        return None
    rest = to_third_person(thing(rest))
    if verb == "stand":
        return ("preference", f"The user cannot stand {rest}", f"like:{key_of(rest)}") if rest else None
    return (
        "self",
        f"The user {'can' if able['can'].lower() == 'can' else 'cannot'} {verb} {rest}",
        f"{stem(verb)}:{key_of(rest)}",
    )


def _possessive(text: str) -> ParsedStatement | None:
    """Parse "my sister is a vet", "my kids love trains"."""
    match = _OWN.match(text) or _OWN_DOES.match(text)
    if match is None or not match["rest"] or _is_deictic(match["rest"]):
        return None
    what, rest = match["what"], match["rest"]
    if "'s " in what:  # something of another person
        return None
    named = [word.lower().removesuffix("'s") for word in what.split()]
    if len(named) == 2 and what.split()[1].istitle():  # "my daughter Noor"
        named = named[:1]
    favoured = not _W["favourite_of"].isdisjoint(named)
    if not (favoured or named[-1] in _W["owned"]) or not _W["not_owned"].isdisjoint(named):
        return None
    verb = (match["verb"] or "is") if match.re is _OWN else ""
    first = rest.split()[0].lower()
    if verb in ("is", "are", "was", "were") and (
        first in _W["moods_of_things"] or first == "been" or (first.endswith("ing") and not favoured)
    ):
        return None
    if not verb and first in ("wants", "needs", "says", "thinks", "asks", "means", "knows"):
        return None
    says = f"{verb} {rest}".lstrip()
    is_single = verb == "is" and (favoured or named[-1] in _W["single"])
    about = f"my:{what.lower()}" if is_single else f"my:{what.lower()}:{key_of(says)}"
    return "self", f"The user's {to_third_person(what)} {to_third_person(says)}", about


def _favourite(match: re.Match[str]) -> ParsedStatement | None:
    """Parse "Dune is my favourite book"."""
    what, rest = match["what"], match["rest"].rstrip(".! ")
    if rest.split()[0].lower() not in _W["favourite_of"] or _is_deictic(what) or _is_deictic(rest):
        return None
    return "preference", f"{what} {match['verb']} the user's {to_third_person(rest)}", f"my:{rest.lower()}"


def third_person_verb(verb: str) -> str:
    """Return the third-person form of a verb: "watches", "studies", "has"."""
    if verb in ("have", "do", "go"):
        return {"have": "has", "do": "does", "go": "goes"}[verb]
    if verb.endswith(("s", "sh", "ch", "x", "z", "o")):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if verb.endswith("y") and verb[-2:-1] not in "aeiou" else f"{verb}s"
