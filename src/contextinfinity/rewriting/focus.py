"""What a conversation is about when the next message comes: the things named, most in mind first.

Turns are read oldest first. A thing gains weight whenever it is named or meant, more when the user does it, and loses
some with every turn that passes. Pronouns in what was said tell the gender and number of those they mean.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from contextinfinity.rewriting.headings import Heading, heading
from contextinfinity.rewriting.lexicon import ALIKE, CLASSES, EMPTY_ANSWERS, NOUNS, Kind, Pronoun
from contextinfinity.rewriting.naming import Mention, judged, mentions, window
from contextinfinity.rewriting.rows import row
from contextinfinity.rewriting.things import COUNTED, GENDERS, MAYBE_HUMAN, Thing, Things
from contextinfinity.rewriting.unnamed import kin, subject
from contextinfinity.threads.values import Turn

TURNS = 24
"""Older turns are not looked at, but for the first, which often says what the conversation is about."""
_RECENT = 4
"""Turns that are looked at more closely."""

_FADES = 0.85
"""What is left of a weight after another turn."""
_HEADED, _NAMED, _MEANT, _TOLD, _REMEMBERED = 6.0, 2.0, 1.5, 0.6, 0.3
"""Weights: in a title, named by the user, meant by the user, named in an answer, in the memories."""
_ANSWERS, _LEADS, _AGAIN = 1.6, 0.4, 0.2
"""More weight for what answers a question for it, for what opens a sentence; what is named again in the same turn."""
_SUBJECT = 1.0
"""The weight of what has no name, "my flight": less than that of any name in the message."""
_STAYS = 0.2
"""Of the weight of what is most in mind, what keeps the title the topic."""

_ANY_PLACE = ("city", "country", "town", "village", "place", "state", "region", "cities", "countries")
"""Words that fit any place; an airport is one only where it was called so."""
_NOD = 60
"""Characters of an answer that may do no more than acknowledge."""
_ACKNOWLEDGES = re.compile(
    r"\W*(?:ok|okay|noted|done|sure|understood|right|got it|great|good|nice|lovely|thanks|thank you|how \w+!|sounds"
    r"|that sounds|congratulations|i see|i will remember|indeed)\b",
    re.I,
)
_OWN_DOING = re.compile(
    r"(?:I|We|I've|We've|I have|We have) (?:bought|ordered|got|booked|rented|received|sold|returned|need|want|have|had"
    r"|wrote|sent)\b"
)
_BESIDE_IT = re.compile(r"[a-z] (?:from|at|with|for|via|through) $")
_PRONOUN = re.compile(rf"\b({'|'.join(CLASSES)})\b", re.I)
_THE = re.compile(r"\b(?:the|this|that|these|those) ([\w-]+)", re.I)
_ASKS = re.compile(
    r"\b(?:(who|wer|qui|quién)"
    r"|(?:which|what|(?:recommend|suggest|find|know)(?: me)?(?: an?| some)?)((?: [\w-]+){1,4}))",
    re.I,
)


def _singular(word: str) -> str:
    return word if word in NOUNS else word.removesuffix("s")


class Focus:
    """The things of a conversation, and its last exchange."""

    def __init__(self) -> None:
        self._known = Things()
        self.things = self._known.all
        self.titled: Thing | None = None
        """What a title at the front said the conversation is about."""
        self.aspect = ""
        """What of it."""
        self.question = ""
        """The last message of the user."""
        self.questions: list[str] = []
        """All of them, oldest first."""
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
        self._acknowledged = False
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

    @property
    def latest(self) -> str:
        """What was said last and says something: an answer, or the question where it was only acknowledged."""
        return self.question if self._acknowledged else self.answer or self.question

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
        if kind == "place" and noun not in _ANY_PLACE:
            return [thing for thing in ranked if noun in thing.words]
        return [thing for thing in ranked if thing.kind == kind and not thing.nouns]

    def newest(self, kind: Kind) -> list[Thing]:
        """Give the things of a kind, the one named last first; a country after a city is only a part."""
        fitting = [thing for thing in self.things if thing.kind == kind]
        if kind == "date":  # a month alone tells less than a year
            fitting = [thing for thing in fitting if any(map(str.isdigit, thing.name))] or fitting
        ranked = sorted(fitting, key=lambda thing: (-thing.turn, thing.is_part, -thing.weight))
        mine = [thing for thing in ranked if thing.by_user >= self.now - 1 and not thing.is_part]
        told = [thing for thing in ranked if thing.turn == self.now and thing.by_user < 0]
        only_inside = len(told) > 1 or (told and told[0].is_part)
        if len(mine) == 1 and only_inside and _ASKS.search(self.question) is None:
            return [*mine, *(thing for thing in ranked if thing not in mine)]  # the answer only tells what is there
        return ranked

    def known(self, name: str) -> Thing | None:
        """Find the thing that is called so, in part or in full."""
        return self._known.called(name)

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
        self.questions.append(text)
        named = self._names(text, _NAMED, by_user=True)
        self._unnamed(text, named)
        for pronoun in dict.fromkeys(CLASSES[word.lower()] for word in _PRONOUN.findall(text)):
            likeliest = self.candidates(pronoun)[:1]
            inside = any(thing.fits(pronoun) >= MAYBE_HUMAN for thing in named)
            if likeliest and not inside and not (pronoun == "they" and self.grouped == self.now):
                self._mean(likeliest[0][1], pronoun, _MEANT, by_user=True)
        for noun in _THE.findall(text):
            for thing in self.described(noun.lower())[:1]:
                if thing.by_user < self.now:
                    self._mean(thing, None, _MEANT, by_user=True)

    def _unnamed(self, text: str, named: list[Thing]) -> None:
        """Hear what has no name: "my flight", "the meeting with Acme", what "I bought from Adidas"."""
        if self.titled is not None:
            return
        named += self._note(kin(text), _NAMED, by_user=True)
        spoken_of = subject(text)
        if spoken_of is not None:
            self._note([spoken_of], _SUBJECT if spoken_of.name.islower() else _NAMED, by_user=True)
        doing = _OWN_DOING.match(text) is not None
        for thing in named:
            inside = spoken_of is not None and thing.name in spoken_of.name
            thing.is_beside = inside or (doing and _BESIDE_IT.search(text[: text.find(thing.name)]) is not None)

    def _assistant(self, text: str) -> None:
        self._acknowledged = len(text) <= _NOD and "\n" not in text and _ACKNOWLEDGES.match(text) is not None
        if not self._acknowledged and text.lower().strip(" .!") not in EMPTY_ANSWERS:
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
            for thing in self._note([mention], _HEADED, by_user=True):
                thing.titled, self.titled = True, thing
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
        small = (thing for thing in self.group if thing.name.islower() and thing.turn < self.now)
        for thing in (thing for thing in small if re.search(rf"\b{re.escape(thing.name)}\b", text)):
            self._mean(thing, None, weight, by_user=by_user)
            self._order += 1
            thing.order = self._order
        group = row(text, [*zip(found, noted, strict=True)])
        if group:
            self.group, self.grouped = group, self.now
        return noted

    def _note(self, found: Sequence[Mention], weight: float, *, by_user: bool) -> list[Thing]:
        noted: list[Thing] = []
        for mention in found:
            thing = self._known.same(mention) or self._known.add(mention)
            gain = _AGAIN if thing in noted else weight + (_LEADS if mention.leads else 0.0)
            self._order += 1
            thing.weight += gain * self._unit
            thing.turn, thing.order = self.now, self._order
            if by_user:
                thing.by_user = self.now
            if mention.article and thing.name == mention.name:
                thing.article = mention.article
            if mention.noun:
                thing.nouns.add(mention.noun)
            noted.append(thing)
        return noted
