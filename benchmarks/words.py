"""Words that look like a conversation: English by its words and lengths, different every time.

Repeated characters would compress to nothing and hash alike; these do neither. The same seed gives the
same words.
"""

from __future__ import annotations

import random
from functools import cache
from itertools import accumulate, islice, product

_VOCABULARY = """
the of and to a in is that it for was on as with be at by this have from or had not but what all were when we there
can an your which their said if do will each about how up out them then she many some so these would other into has
more her two like him see time could no make than first been its who now people my made over did down only way find
use may water long little very after words called just where most know get through back much go good new write our
used me man too any day same right look think also around another came come work three must because does part even
place well such here take why things help put years different away again off went old number great tell men say small
every found still between name should home big give air line set own under read last never us left end along while
might next sound below saw something thought both few those always looked show large often together asked house world
going want school important until form food keep children feet land side without boy once animals life enough took
sometimes four head above kind began almost live page got earth need far hand high year mother light parts country
father let night following picture being study second eyes soon times story boys since white days ever paper hard near
sentence better best across during today others however sure means knew whole deploy server branch index commit ledger
query cache token prompt summary context memory session turn answer latency throughput transaction durable schema
migration vector embedding retrieval budget database replica failure retry timeout schedule meeting customer invoice
estimate holiday recipe temperature engine gearbox voltage resistor protein enzyme harbour bridge mountain orchestra
violin contract liability insurance mortgage algorithm function variable compiler exception interface
"""
_WORDS = _VOCABULARY.split()
_WEIGHTS = [1 / (rank + 3) for rank in range(len(_WORDS))]  # a few words are common, most are rare, as in speech


@cache
def _sentences() -> tuple[str, ...]:
    rng = random.Random(20)
    made = []
    for _ in range(4000):
        words = rng.choices(_WORDS, _WEIGHTS, k=rng.randint(5, 19))
        if rng.random() < 0.2:
            words[-1] = str(rng.randint(2, 9999))
        made.append(" ".join(words).capitalize() + rng.choice(".....?!"))
    return tuple(made)


def text(rng: random.Random, length: int) -> str:
    """Make a text of exactly that many characters."""
    sentences = _sentences()
    parts: list[str] = []
    size = -1
    while size < length:
        parts.append(sentences[int(rng.random() * len(sentences))])
        size += len(parts[-1]) + 1
    return " ".join(parts)[: length - 1] + "."


RARE, KNOWN = 40_000, 5_000
"""Words of ``speech`` beside the ordinary ones; past the ones that everyone knows they get rare sooner. So nine tenths
of what is said are those, as in English."""


@cache
def _spoken() -> tuple[list[str], list[float]]:
    """Give very many words, and how common each is, one after the other."""
    syllables = ("".join(each) for each in product("bdfgklmnprstvz", "aeiou", ("", "l", "n", "r", "s")))
    made = ["".join(each) for each in product(syllables, repeat=2)]
    random.Random(21).shuffle(made)
    words = [*_WORDS, *islice(made, RARE)]
    return words, [*accumulate(min(1.0, KNOWN / (rank + 3)) / (rank + 3) for rank in range(len(words)))]


def speech(rng: random.Random, length: int) -> str:
    """Make a text of exactly that many characters whose words are as many and as unequally common as in speech."""
    words, weights = _spoken()
    said = rng.choices(words, cum_weights=weights, k=length // 4 + 20)
    sentences = (" ".join(said[start : start + 12]).capitalize() for start in range(0, len(said), 12))
    return ". ".join(sentences)[: length - 1] + "."
