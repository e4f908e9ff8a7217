"""What a conversation is about when the next message comes: the things named, most in mind first.

Turns are read oldest first. A thing gains weight whenever it is named or meant, more when the user does it, and loses
some with every turn that passes. Pronouns in what was said tell the gender and number of those they mean.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from contextinfinity.rewriting.headings import Heading, heading
from contextinfinity.rewriting.lexicon import ALIKE, CLASSES, EMPTY_ANSWERS, NOUNS, Kind, Pronoun
from contextinfinity.rewriting.naming import Mention, judged, mentions, window
from contextinfinity.rewriting.things import COUNTED, GENDERS, MAYBE_HUMAN, Thing, name_words
from contextinfinity.threads.values import Turn

TURNS = 24
"""Older turns are not looked at, but for the first, which often says what the conversation is about."""
_RECENT = 4
"""Turns that are looked at more closely."""
MOST = 300
"""Things kept in mind."""

_FADES = 0.85
"""What is left of a weight after another turn."""
_HEADED, _NAMED, _MEANT, _TOLD, _REMEMBERED = 6.0, 2.0, 1.5, 0.6, 0.3
"""Weights: in a title, named by the user, meant by the user, named in an answer, in the memories."""
_ANSWERS, _LEADS, _AGAIN = 1.6, 0.4, 0.2
"""More weight for what answers a question for it, for what opens a sentence; what is named again in the same turn."""
_STAYS = 0.2
"""Of the weight of what is most in mind, what keeps the title the topic."""

_PRONOUN = re.compile(rf"\b({'|'.join(CLASSES)})\b", re.I)
_THE = re.compile(r"\b(?:the|this|that|these|those) ([\w-]+)", re.I)
_ASKS = re.compile(r"\b(?:(who)|(?:which|what)((?: [\w-]+){1,4}))", re.I)
_AND = re.compile(r"[\"”'’)]?(?:,? (?:and|or|und|et|y|vs\.?|versus|&) |, )[\"“'‘]?(?:the )?")
_CONJUNCTION = re.compile(r"\b(?:and|or|und|et|y|vs|versus)\b|&")
_PLURALS = re.compile(r"\b([a-z]{3,20})s\b|\b(?:which|what|or|either) ([a-z]{3,20})\b")
_PART_OF = re.compile(r", | to | – |-|[^.!?]{0,30}\b(?:capital|city|town|part|state|region|border) (?:of|in) (?:the )?")


def _singular(word: str) -> str:
    return word if word in NOUNS else word.removesuffix("s")


def _call(things: list[Thing], around: str) -> None:
    """Let things named together be what the words beside them say: "the books Dune and Emma"; and all of one kind."""
    nouns = [match[1] or match[2] for match in _PLURALS.finditer(around.lower())]
    noun = next((noun for noun in nouns if NOUNS.get(noun, "date") not in COUNTED), "")
    told: list[Kind] = [NOUNS[noun]] if noun else [thing.kind for thing in things if thing.kind != "thing"]
    for thing in things:
        if told and told[0] != "person" and not thing.is_sure and (noun or thing.kind == "thing"):
            thing.kind, thing.human, thing.gender = told[0], 0.05, ""
        if noun:
            thing.nouns.add(noun)


class Focus:
    """The things of a conversation, and its last exchange."""

    def __init__(self) -> None:
        self.things: list[Thing] = []
        self.titled: Thing | None = None
        """What a title at the front said the conversation is about."""
        self.aspect = ""
        """What of it."""
        self.question = ""
        """The last message of the user."""
        self.asks_back = ""
        """The question with which the last turn ended, where it was an answer that asked."""
        self.answers: list[str] = []
        """What was answered and says something, oldest first."""
        self.texts: list[str] = []
        self.group: list[Thing] = []
        """Things named in one breath: "Alice, Bob and Carol"."""
        self.grouped = -1
        """The turn that named them."""
        self.now = -1
        self._called: dict[str, list[Thing]] = {}
        """The things by each word of their names."""
        self._unit = 1.0
        self._order = 0

    @classmethod
    def of(cls, turns: Sequence[Turn], snippet: str | None = None) -> Focus:
        """Read a conversation, and before it what is remembered."""
        focus = cls()
        if snippet:
            focus._note(mentions(window(snippet)), _REMEMBERED, by_user=False)
        skipped = max(0, len(turns) - TURNS)
        for index, turn in enumerate(turns):
            if turn.role in ("user", "assistant") and (index == 0 or index > skipped):
                focus._hear(index, turn, is_old=index + _RECENT < len(turns))
        return focus

    # --- What is in mind ----------------------------------------------------------------------------

    @property
    def topic(self) -> Thing | None:
        """What the user speaks of most."""
        told = [thing for thing in self.things if thing.by_user >= 0 and thing.kind not in COUNTED]
        best = max(told, key=lambda thing: thing.weight, default=None)
        if best is not None and self.titled is not None and self.titled.weight >= _STAYS * best.weight:
            return self.titled
        return best

    @property
    def answer(self) -> str:
        """The last answer that says something."""
        return self.answers[-1] if self.answers else ""

    def ranked(self) -> list[Thing]:
        """Give the things, most in mind first."""
        return sorted(self.things, key=lambda thing: -thing.weight)

    def candidates(self, pronoun: Pronoun) -> list[tuple[float, Thing]]:
        """Give what a pronoun may mean with a score, the likeliest first."""
        scored = [(thing.weight / self._unit * thing.fits(pronoun), thing) for thing in self.things]
        return sorted((pair for pair in scored if pair[0] > 0), key=lambda pair: -pair[0])

    def described(self, noun: str) -> list[Thing]:
        """Give what a word for its kind may mean, "the album", the likeliest first."""
        alike = next((words for words in ALIKE if noun in words), frozenset((noun,)))
        ranked = self.ranked()
        told = [thing for thing in ranked if not alike.isdisjoint(thing.nouns)]
        kind = NOUNS.get(noun)
        if told or kind is None or kind in COUNTED:
            return told
        topic = self.topic
        if topic is not None and topic.kind == "thing" and topic.human < 0.7 and kind != "person" and not topic.nouns:
            return [*self.group] if topic in self.group and self.grouped >= self.now - 1 else [topic]
        return [thing for thing in ranked if thing.kind == kind and not thing.nouns]

    def newest(self, kind: Kind) -> list[Thing]:
        """Give the things of a kind, the one named last first; a country after a city is only a part."""
        fitting = [thing for thing in self.things if thing.kind == kind]
        if kind == "date":  # a month alone tells less than a year
            fitting = [thing for thing in fitting if any(map(str.isdigit, thing.name))] or fitting
        return sorted(fitting, key=lambda thing: (-thing.turn, thing.is_part, -thing.weight))

    def known(self, name: str) -> Thing | None:
        """Find the thing that is called so, in part or in full."""
        words = name_words(name)
        fitting = [thing for thing in self._called.get(next(iter(words), ""), ()) if words <= thing.words]
        return max(fitting, key=lambda thing: thing.weight, default=None)

    # --- Hearing turns ------------------------------------------------------------------------------

    def _hear(self, index: int, turn: Turn, *, is_old: bool) -> None:
        self.now = index
        self._unit /= _FADES
        text = window(turn.content, is_old=is_old)
        self.texts.append(text)
        self.asks_back = ""
        if turn.role == "user":
            self._user(text)
        else:
            self._assistant(text)

    def _user(self, text: str) -> None:
        title = heading(text) if self.now < 2 and not self.question else None
        if title is not None:
            self._title(title, text)
            return
        self.question = text
        named = self._names(text, _NAMED, by_user=True)
        for pronoun in dict.fromkeys(CLASSES[word.lower()] for word in _PRONOUN.findall(text)):
            likeliest = self.candidates(pronoun)[:1]
            inside = any(thing.fits(pronoun) >= MAYBE_HUMAN for thing in named)
            if likeliest and not inside and not (pronoun == "they" and self.grouped == self.now):
                self._mean(likeliest[0][1], pronoun, _MEANT, by_user=True)
        for noun in _THE.findall(text):
            for thing in self.described(noun.lower())[:1]:
                if thing.by_user < self.now:
                    self._mean(thing, None, _MEANT, by_user=True)

    def _assistant(self, text: str) -> None:
        if text.lower().strip(" .!") not in EMPTY_ANSWERS:
            self.answers.append(text)
        if text.rstrip().endswith("?"):
            self.asks_back = re.split(r"(?<=[.!?])\s+", text.strip())[-1]
        new = [thing for thing in self._names(text, _TOLD, by_user=False) if thing.by_user < self.now - 1]
        answer = next((thing for thing in new if self._answers(thing)), None)
        together = self.group if self.grouped == self.now and answer in self.group else []
        for thing in new:
            if thing is answer or (thing in together and self._answers(thing)):
                thing.weight += _ANSWERS * self._unit
        said = _PRONOUN.search(text[:120])
        pronoun = CLASSES[said[0].lower()] if said else "it"
        if pronoun in GENDERS:
            for _, thing in self.candidates(pronoun)[:1]:
                self._mean(thing, pronoun, _LEADS, by_user=False)

    def _title(self, title: Heading, text: str) -> None:
        aspect = title.aspect if self.titled is None else text.strip()
        if self.titled is None:
            mention = judged(title.topic, noun=title.noun)
            if title.noun and NOUNS[title.noun] == "person":
                mention = Mention(name=title.topic, start=0, end=0, kind="person", human=1.0, gender=mention.gender)
            self.titled = next(iter(self._note([mention], _HEADED, by_user=True)), None)
        if aspect:
            self.aspect = aspect
            self._note(mentions(aspect, titled=True), _NAMED / 2, by_user=True)

    def _answers(self, thing: Thing) -> bool:
        """Tell whether the last question asked for such a thing, and let it be of the kind that was asked for."""
        asked = _ASKS.search(self.question)
        if asked is None or thing.kind in COUNTED:
            return False
        noun = next((word for word in map(_singular, (asked[2] or "").lower().split()) if word in NOUNS), "")
        kind = "person" if asked[1] else NOUNS.get(noun)
        guess = thing.kind == "thing" and (thing.human >= MAYBE_HUMAN or kind != "person")
        if kind is None or not (thing.kind == kind or guess):
            return False
        if kind not in COUNTED and noun and not thing.gender:
            thing.kind, thing.human = kind, 0.8 if kind == "person" else 0.05
            thing.nouns.add(noun)
        return True

    def _mean(self, thing: Thing, pronoun: Pronoun | None, weight: float, *, by_user: bool) -> None:
        thing.weight += weight * self._unit
        thing.turn = self.now
        if by_user:
            thing.by_user = thing.meant = self.now
        if pronoun is not None:
            thing.learn(pronoun)

    def _names(self, text: str, weight: float, *, by_user: bool) -> list[Thing]:
        """Note what a text names, and what it names in one breath."""
        found = mentions(text)
        noted = self._note(found, weight, by_user=by_user)
        run: list[Thing] = noted[:1]
        for (before, here), first, thing in zip(pairwise(found), noted, noted[1:], strict=False):
            between = text[before.end : here.start]
            alike = thing.kind == first.kind or min(thing.human, first.human) >= MAYBE_HUMAN
            alike = alike or ("thing" in (thing.kind, first.kind) and not {thing.kind, first.kind} & set(COUNTED))
            joined = alike and thing not in run and _AND.fullmatch(between) is not None
            thing.is_part |= alike and thing.kind in ("place", "date") and _PART_OF.fullmatch(between) is not None
            run = [*run, thing] if joined else [thing]
            if joined and _CONJUNCTION.search(between):
                self.group, self.grouped = run, self.now
                _call(run, text[max(0, before.start - 40) : here.end + 25])
        return noted

    def _note(self, found: Sequence[Mention], weight: float, *, by_user: bool) -> list[Thing]:
        noted: list[Thing] = []
        for mention in found:
            thing = self._same(mention)
            if thing is None:
                thing = Thing.of(mention)
                self._keep(thing)
            gain = _AGAIN if thing in noted else weight + (_LEADS if mention.leads else 0.0)
            self._order += 1
            thing.weight += gain * self._unit
            thing.turn, thing.order = self.now, self._order
            if by_user:
                thing.by_user = self.now
            if mention.noun:
                thing.nouns.add(mention.noun)
            noted.append(thing)
        return noted

    def _same(self, mention: Mention) -> Thing | None:
        """Find the thing a mention names: by a part of its name, or by a longer form of it."""
        known = self.known(mention.name)
        if known is not None or mention.human < MAYBE_HUMAN:
            return known
        words = name_words(mention.name)
        for thing in (thing for word in words for thing in self._called.get(word, ())):
            if thing.words < words and thing.human >= MAYBE_HUMAN:
                thing.grow(mention)
                self._index(thing)
                return thing
        return None

    def _keep(self, thing: Thing) -> None:
        if len(self.things) < MOST:
            self.things.append(thing)
            self._index(thing)

    def _index(self, thing: Thing) -> None:
        for word in thing.words:
            called = self._called.setdefault(word, [])
            if thing not in called:
                called.append(thing)
