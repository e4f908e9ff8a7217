"""How people say that something is decided, required, preferred, known or open.

A sentence is only looked at closely when one of the trigger words is in it; most have none. English is covered well,
German, French, Spanish and Chinese with their commonest phrases.
"""

from __future__ import annotations

import re

from msgspec import Struct

from contextinfinity.librarian.digest import Kind
from contextinfinity.librarian.salience import BINDS, WORTH, salience
from contextinfinity.librarian.words import listed, named
from contextinfinity.text.entities import ARTIFACTS
from contextinfinity.text.sentences import asks

_WORD = re.compile(r"[^\W\d_]+")
_LONGEST = 1000
"""A longer sentence is no sentence."""
_EASTERN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")


class Cue(Struct, frozen=True):
    """Phrases for one kind: words of which one must be there, the phrases themselves, and phrases in Chinese."""

    kind: Kind
    triggers: frozenset[str]
    phrases: re.Pattern[str]
    eastern: re.Pattern[str]
    assistant: re.Pattern[str] | None = None
    """Phrases that count when the assistant uses them; None: the same."""


def _any(phrases: str) -> re.Pattern[str]:
    """Compile phrases; each line holds further ones."""
    return re.compile("|".join(line.strip() for line in phrases.strip().splitlines()), re.IGNORECASE)


def _cue(kind: Kind, triggers: str, phrases: str, eastern: str, assistant: str | None = None) -> Cue:
    own = None if assistant is None else _any(assistant)
    return Cue(kind, frozenset(triggers.split()), _any(phrases), re.compile(eastern), own)


_NEVER = r"(?!)"

OPEN = _cue(
    "question",
    """
    open tbd undecided unresolved unclear later decided decide settled offen unklar später décider clair
    pendiente decidir abierto
    """,
    r"""
    \bopen (?:question|point|issue)\b|\b(?:still|remains?|left) (?:open|undecided|unresolved|unclear)\b|\btbd\b
    \bto be (?:decided|determined|confirmed|clarified)\b|\bundecided\b|\bunresolved\b
    (?:\bnot|n['’]t|\bnever|\byet to) (?:yet |been )?(?:decided?|settled?)\b|\bdecide (?:\w+ ){0,4}later\b
    \b(?:need|have) to (?:decide|settle|clarify)\b|\bnoch (?:offen|unklar|nicht (?:entschieden|geklärt))\b
    \boffene frage\b|\b(?:reste|encore) à (?:décider|clarifier)\b|\bpas encore décidé\b|\bquestion ouverte\b
    \b(?:pendiente|por) (?:de )?decidir\b|\bpregunta abierta\b|\baún no (?:hemos )?decidido\b
    """,
    r"待定|未决|还没(?:有)?(?:决定|定)|尚未(?:决定|确定)|以后再(?:说|定)|未解决",
)
DECISION = _cue(
    "decision",
    """
    decided agreed decision settled chose chosen opted concluded let lets use using go going with stick switch
    switched switching drop dropped adopt adopted instead longer approved rejected moved changed picked final
    finalized replaced won will not entschieden beschlossen vereinbart geeinigt festgelegt nehmen nutzen verwenden statt
    entscheidung décidé convenu choisi opté utilisons utiliserons utilise prend garde décision lieu decidido
    decidimos acordado acordamos elegido usaremos usar lugar optamos decisión vamos
    """,
    r"""
    \b(?:decided|settled|opted|concluded|chose|chosen|picked(?! up))\b|\bagreed (?:on|to|that|with)\b
    \b(?:the |our |final |my )decision\b|\bdecision:
    \blet(?:['’]s|s| us) (?:go|use|stick|pick|choose|switch|drop|keep|adopt|move|call|name|ship|do|set)\b
    \bwe(?:['’]ll| will|['’]re going to| are going to| should just) (?:use|go with|stick with|keep|drop|switch|ship)\b
    \bwe(?:['’]ll| will) (?:deploy|move|pick|adopt|name|call|host|store|build|write|start|launch|run)\b
    \b(?:i['’]ll|i will|i['’]m going to) (?:go with|use|take|pick|stick with|switch to|keep)\b
    \bgo(?:ing)? with (?!us\b|me\b|him\b|her\b|them\b|you\b)
    \b(?:we|i)(?:['’]ll not| will not| won['’]t|['’]re not going to| are not going to) (?!lie\b|be\b|say\b|mind\b)
    \binstead of\b|\binstead[.!]?$|\bno longer\b|\bswitch(?:ed|ing)? (?:\w+ ){0,4}(?:from|to|over)\b
    \bchanged (?:\w+ ){0,4}to\b|\breplaced (?:\w+ ){1,4}(?:with|by)\b
    \b(?:is|are|was|were|been) (?:approved|rejected|chosen|finali[sz]ed|dropped)\b
    \bmoved (?:\w+ ){0,4}(?:from|to)\b|\b(?:entschieden|beschlossen|vereinbart|geeinigt|festgelegt)\b
    \bwir (?:nehmen|nutzen|verwenden)\b|\bstatt\b|\b(?:avons|a|ai|est) (?:décidé|convenu|choisi|opté)\b
    \b(?:on|nous) (?:utilise(?:ra|rons)?|utilisons|prend|prenons|garde|gardons)\b|\bau lieu d
    \b(?:hemos|han|he) (?:decidido|acordado|elegido)\b|\b(?:decidimos|acordamos|optamos|usaremos|vamos a usar)\b
    \ben lugar de\b
    """,
    r"决定|定下来|确定(?:用|使用|采用)|选择了|改用|改成|采用|商定|不再|我们用|换成",
    r"""
    \b(?:we|you|as|have|['’]ve) (?:\w+ )?(?:decided|agreed|settled)\b|\b(?:the |our |final )decision\b|\bdecision:
    \bwe(?:['’]ll| will) (?:use|go with|stick with|keep|drop|switch|adopt)\b
    \bi(?:['’]ve| have) (?:switched|renamed|moved|replaced|changed)\b|\b(?:entschieden|beschlossen|vereinbart)\b
    \bavons (?:décidé|convenu)\b|\bhemos (?:decidido|acordado)\b
    """,
)
CONSTRAINT = _cue(
    "constraint",
    """
    must mustn may should shall never always required requirement mandatory forbidden prohibited allowed limit exceed
    limited
    maximum minimum max most least deadline constraint cannot only sure circumstances latest than has have needs
    don not avoid no budget cap without muss müssen darf dürfen niemals nie immer höchstens mindestens spätestens
    verboten pflicht frist nur keinen doit doivent jamais toujours maximum plus moins interdit obligatoire faut
    limite debe deben nunca siempre máximo menos prohibido obligatorio hay límite tardar
    """,
    r"""
    \bmust(?:n['’]t| not)?\b(?!['’]ve| have been)
    (?:^|[,;:–] |\b(?:please|and|but|to|we|it|they|should|shall|will) )(?:never|always) (?!mind|give up)\w
    \b(?:is|are|was) (?:\w+ )?(?:required|mandatory|forbidden|prohibited|not allowed|limited)\b
    \b(?:requirement|constraint|deadline|hard limit|rule)\b
    \b(?:may|should|shall|can) not \w|\b(?:more|less|longer|fewer) than \d
    \b(?:at most|at least|no (?:more|less|fewer|later|earlier) than|not exceed|under no circumstances|by the latest)\b
    \b(?:maximum|minimum|limit|cap) (?:of|is|are|to|at)\b
    \bonly (?:use|allow|support|run|deploy|write|on|in|after|before|between)\b
    \w (?:has|have|needs?) to (?:be|stay|work|run|fit|remain|support|finish|keep|pass)\b
    \bmake sure\b|\bcannot (?:be|use|exceed|change|leave)\b
    (?:^|[,;:] |\b(?:but|and|please) )(?:do not|don['’]t|avoid) (?!worry|know|think|mind|forget|give up)\w
    \bwithout (?:ever|any)\b|\bno (?:\w+ ){1,4}allowed\b
    \b(?:muss|müssen|darf|dürfen|niemals|höchstens|mindestens|spätestens|verboten|pflicht|frist)\b
    \b(?:nie|immer) \w|\bauf keinen fall\b
    \b(?:doit|doivent|jamais|toujours|interdit|obligatoire|il faut|date limite)\b|\bau (?:maximum|plus|moins)\b
    \b(?:debe|deben|nunca|siempre|prohibido|obligatorio|hay que|fecha límite)\b|\bcomo máximo\b|\bal menos\b
    \ba más tardar\b
    """,
    r"必须|不得|不能|不要|禁止|至少|最多|不超过|务必|截止|一定要|永远不|只能",
    r"\b(?:requirement|constraint|deadline|hard limit)\b",
)
PREFERENCE = _cue(
    "preference",
    """
    prefer preferred preference like love hate dislike enjoy rather favourite favorite please call stand allergic
    vegetarian vegan fan bevorzuge mag hasse lieber liebsten bitte nenn ziehe préfère aime adore déteste plutôt
    appelle plaît prefiero gusta odio llámame encanta
    """,
    r"""
    \b(?:i|we)(?:['’]d| would)? (?:\w+ )?(?:prefer|favou?r|hate|dislike|enjoy)\b
    \b(?:i|we) (?:really |don['’]t |do not )?(?:like|love) (?!to (?:know|see|ask|understand|learn|hear))\w
    \b(?:i|we)(?:['’]d| would) rather\b|\bmy (?:preferred|favou?rite|preference)\b
    \bi(?:['’]m| am) (?:allergic|(?:a )?vegetarian|(?:a )?vegan|(?:not )?a (?:big )?fan)|\bi can['’]?t stand\b
    \bcall me\b|\bplease (?:always|never|use|keep|don['’]t|do not|avoid|answer|write|stick|stop)\b
    \bich (?:bevorzuge|mag|hasse|hätte lieber|möchte lieber)\b|\b(?:am liebsten|lieber)\b|\bnenn mich\b
    \bbitte (?:immer|nie|nicht|kein|keine|nur)\b|\bich ziehe\b.{1,60}\bvor\b|\bje (?:préfère|déteste|n['’]aime)\b
    \bj['’](?:aime|adore)\b|\bappelle[- ]moi\b|\bs['’]il te plaît (?:ne|toujours)\b|\b(?:prefiero|odio|llámame)\b
    \b(?:no )?me (?:gusta|encanta)\b
    """,
    r"我(?:更|比较|最)?(?:喜欢|偏好|讨厌|不喜欢|爱)|叫我|请(?:总是|始终|一直|不要|尽量)|希望你",
    _NEVER,
)
_UNSURE = _any(
    r"""
    ^(?:if|what if|suppose|maybe|perhaps|should|could|shall|wenn|falls|vielleicht|sollen|si|peut-être|quizás)\b
    \b(?:might|may|could|thinking about|considering|not sure|wondering|would you|do you)\b
    """
)
_MYSELF = _any(
    r"""
    \b(?:i|you|he|she|they)(?:['’]\w+)? (?:\w+ )?(?:always|never|must|have to|need to)\b|\bnever mind\b
    \balways (?:been|wondered|thought|wanted)\b|^(?:that|it|this|you) must be\b|\bi must (?:say|admit|confess)\b
    """
)
_IN_ORDER = (OPEN, DECISION, CONSTRAINT, PREFERENCE)
_LONGEST_FACT = 300
_IDLE = 1.5
"""With fewer points a phrase is only talk: "the king chose", "I won't lie"."""
_STATES = listed("is are was were costs cost equals totals total takes has have ist sind beträgt est sont es son")
_STATING_SIGNS = (":", "=", "是", "为")
_DIGIT = re.compile(r"\d")
_NAMING = re.compile(r"[/\\_@=]|\w\.\w|[a-z][A-Z]|::|\(\)|--\w")
_PERSONAL = re.compile(r"我叫|我住|我的|记住|请注意|别忘")


def kind_of(sentence: str, *, assistant: bool = False) -> Kind | None:
    """Tell under which heading a sentence belongs; None for most, which are talk. A question binds to nothing."""
    if len(sentence) > _LONGEST or asks(sentence):
        return None
    words = frozenset(_WORD.findall(sentence.lower()))
    eastern = not sentence.isascii() and _EASTERN.search(sentence) is not None
    for cue in _IN_ORDER:
        if _has(cue, sentence, words, eastern, assistant) and _meant(cue.kind, sentence):
            if assistant or eastern or cue.kind == "question" or salience(sentence).points >= _IDLE:
                return cue.kind
            return None
    if len(sentence) > _LONGEST_FACT:
        return None
    if assistant or eastern:
        return "fact" if _states(sentence, words) or (eastern and _PERSONAL.search(sentence)) else None
    return _worth(sentence)


def _worth(sentence: str) -> Kind | None:
    """Judge a sentence of a person without a plain cue."""
    found = salience(sentence)
    if found.points < WORTH:
        return None
    return found.leans if found.leans is not None and found.points >= BINDS else "fact"


def _states(sentence: str, words: frozenset[str]) -> bool:
    """Tell whether a sentence says that something is so, with a number, a date or a thing in it."""
    if words.isdisjoint(_STATES) and not any(sign in sentence for sign in _STATING_SIGNS):
        return False
    if _DIGIT.search(sentence):
        return True
    return _NAMING.search(sentence) is not None and any(found.kind in ARTIFACTS for found in named(sentence))


def _has(cue: Cue, sentence: str, words: frozenset[str], eastern: bool, assistant: bool) -> bool:
    if eastern and not (assistant and cue.assistant is not None) and cue.eastern.search(sentence):
        return True
    if cue.triggers.isdisjoint(words):
        return False
    phrases = cue.assistant if assistant and cue.assistant is not None else cue.phrases
    return phrases.search(sentence) is not None


def _meant(kind: Kind, sentence: str) -> bool:
    """Rule out what is only thought about, and what somebody tells of themselves."""
    if kind == "decision":
        return not _UNSURE.search(sentence)
    return not (kind == "constraint" and _MYSELF.search(sentence))
