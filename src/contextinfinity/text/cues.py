"""Lexical cues about topic changes in a message.

Pure functions on text: its words, its content words, phrases that leave a topic, and phrases that continue one. Every
pattern runs in linear time.
"""

from __future__ import annotations

import re

from contextinfinity.text.keywords import bigrams
from contextinfinity.text.own_words import own_words

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


EMPTY_WORDS = _listed(
    """
    a about after again ain all also always am an and any are aren as at be because been before being but by can
    cannot cant cool could couldn did didn do does doesn doing don done dont down each else even ever every few for
    from get gets getting go goes going gonna good got great had has have having he hello her here hers hey hi him
    his how i if im in into is it its just know lets like lol made make many may maybe me might mine more most much
    must my need never nice no not now of off oh ok okay on one only or other our out over own please really right
    same say see she should so some someone something still such sure tell than thank thanks that the their them
    then there these they thing things think this those through time to too try trying two up us use used using very
    want was way we well were what when where which while who why will with without would wow yeah yep yes yet you
    your yours
    der die das ein eine und ist ich du wir sie es nicht mit von zu auf für wie was kann den dem
    le la les un une des et est je tu nous vous il elle pas de du en pour que qui ce
    el los las una y es yo no con por para que como en del
    """
)
"""Words that say nothing about a topic."""

_POINTING = _listed("it its that this these those they them their there he she him her his one ones")
_SELF = _listed("i i'm im i’m my mine")

_LEAVING = re.compile(
    r"""
    \b(?:
      now[ ,]+(?:let['’]?s|let\ us|we\ (?:can|should|need\ to)|i(?:['’]d|\ would)\ like\ to|i\ want\ to)
      \ (?:work\ on|look\ at|move|turn|switch|talk|discuss|focus|go\ to|go\ on\ to|start|get\ to|build|create|refactor)
    | now\ (?:on\ to|for\ something)
    | let['’]?s\ (?:move\ on|switch|change\ (?:the\ )?(?:topic|subject)s?|start\ over|talk\ about\ something)
    | let['’]?s\ (?:try|do|discuss|talk\ about)\ something\ (?:else|different)
    | let['’]?s\ (?:work|refactor|build|do|look|turn|talk|write|go)\b[^.?!\n]{0,100}\b(?:instead|next)\b
    | switching\ (?:gears|topics?|subjects?|tasks?|over\ to) | switch\ (?:gears|topics|subjects)
    | (?:new|different|another|next|separate|unrelated)\ (?:topic|subject|task|issue|question|matter)\s?[:.,;!–—-]
    | on\ (?:another|a\ different|an\ unrelated)\ (?:note|topic|subject)
    | (?:change\ of\ (?:topic|subject)|changing\ (?:topics?|subjects|the\ topic)|moving\ on)\b
    | (?<!n't\ )(?<!n’t\ )(?<!not\ )(?<!never\ )
      forget\ (?:that|this|it\ all|everything|what\ i\ said|about\ (?:that|it|this|all\ that))\b
    | (?:anderes|neues|nächstes)\ thema | themawechsel | (?:das\ )?thema\ wechseln | vergiss\ das
    | (?:jetzt|nun|kommen\ wir)\ zu[mr]?\b | etwas\ (?:ganz\ )?anderes\s?[:.]
    | (?:autre|nouveau)\ sujet | chang(?:eons|er)\ de\ sujet | passons\ à | oublie[zs]?\ (?:ça|cela)
    | (?:otro|nuevo)\ tema | cambi(?:ando|emos|ar)\ de\ tema | pasemos\ a | olvida\ eso | ahora\ vamos\ a
    | (?:altro|nuovo)\ argomento | cambiamo\ argomento | passiamo\ a
    | (?:outro|novo)\ assunto | mudando\ de\ assunto | ander\ onderwerp | vergeet\ dat
    )
    | ^\W{0,9}(?:(?:ok(?:ay)?|great|thanks|thank\ you|perfect|good|alright|cool|done)\W{1,9}){0,2}
      (?:next\s?[:,–—-] | (?:a\ |an\ )?(?:new|different|another|unrelated|separate)\ (?:topic|subject|task|question)\b
      | something\ (?:else|(?:completely\ )?different)\s?[:,.])
    | другая\ тема | смен(?:им|а)\ тем | забудь | перейд[её]м\ к
    | 换个?话题 | 換個?話題 | 另一个问题 | 話は変わ | 話題を変え | 別の(?:話|質問|件)
    """,
    re.X | re.I,
)
_GOING_ON = re.compile(
    r"""
    ^\W{0,9}(?:(?:ok(?:ay)?|yes|no|yeah|hm{1,9}|great|thanks)\W{1,9}){0,2}
    (?: and | but | so | also | then | still | why | how\ come | what\ (?:about|if|else) | how\ about | which\ one
    | make\ (?:it|that|this) | that | this | it | does\ (?:that|it|this) | is\ (?:that|it|this) | thanks | thank\ you
    | same | perfect | works | continue | go\ on | again | shorter | longer | more | explain | (?:now\ )?do\ the\ same
    | und | aber | warum | wieso | et | mais | pourquoi | y | pero | e | ma | en | maar | а | но | почему )\b
    """,
    re.X | re.I,
)
_ASKING_ABOUT_YOU = re.compile(r"\b(?:do|did|are|were|have|what (?:do|is|are)) your?\b", re.I)

_ASKING = re.compile(r"[?？]|\b(?:tell|show|send|give) me\b|\bplease (?:share|paste|provide|describe)\b", re.I)

OPENING = 200
"""The number of characters at the start of a message that may announce a new topic, and at its end that may ask."""


def words(text: str) -> list[str]:
    """Return the words in lower case."""
    return [word.lower() for word in _WORD.findall(text)]


def content(said: list[str]) -> frozenset[str]:
    """Return the content words, cut to six letters, so that inflections do not matter; pairs in unspaced scripts."""
    return frozenset(piece[:6] for word in said if carries_content(word) for piece in bigrams(word))


def carries_content(word: str) -> bool:
    """Return whether a word is a content word."""
    return len(word) > 1 and word.replace("’", "'").partition("'")[0] not in EMPTY_WORDS


def pointing(said: list[str]) -> int:
    """Count the words that refer to something said before."""
    return sum(word in _POINTING for word in said)


def of_itself(said: list[str]) -> bool:
    """Return whether the speaker talks about themselves."""
    return not _SELF.isdisjoint(said)


def leaves_topic(text: str) -> str | None:
    """Return the phrase at the start of a message that announces a new topic, or None."""
    found = _LEAVING.search(own_words(text)[:OPENING]) if _LEAVING.search(text[:OPENING]) else None
    return found.group().strip() if found else None


def starts_like_follow_up(text: str) -> bool:
    """Return whether a message starts like a follow-up."""
    return _GOING_ON.match(text[:OPENING]) is not None


def asks(text: str) -> bool:
    """Return whether a message has a question mark."""
    return "?" in text or "？" in text


def ends_asking(text: str) -> bool:
    """Return whether a message ends with a question or request."""
    return _ASKING.search(text[-OPENING:]) is not None


def asks_about_you(text: str) -> bool:
    """Return whether a message asks the other person about themselves, which often opens a topic."""
    return _ASKING_ABOUT_YOU.search(text) is not None
