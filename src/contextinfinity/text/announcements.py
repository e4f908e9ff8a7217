"""How people announce text that is not their own words: the vocabulary of ``own_words``, in five languages.

A task hands a text over ("translate this: …"), an attribution says whose words follow ("the file says: …"), fiction
says that nobody real speaks ("Chapter 1."). Every pattern is bounded.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

Announces: TypeAlias = Literal["task", "document", "person", "reported"]
"""What follows is a text to work on, a document, a person's words, or one reported clause."""

LOOKED_AT = 200
"""Characters of a sentence in which an announcement is looked for."""

_DOCUMENT = (
    r"(?:e-?mails?|mails?|letters?|files?|pages?|web ?sites?|sites?|read-?me(?:\.\w+)?|docs?|documents?|documentation"
    r"|manuals?|leaflets?|articles?|posts?|tweets?|blogs?|papers?|books?|contracts?|lease|clauses?|polic(?:y|ies)|logs?"
    r"|consoles?|terminal|output|errors?|stack ?traces?|tracebacks?|transcripts?|minutes|tickets?|issues?|specs?"
    r"|specification|reports?|reviews?|signs?|plaques?|poems?|songs?|lyrics|stor(?:y|ies)|chapters?|essays?|bios?|cvs?"
    r"|resumes?|abstracts?|drafts?|quotes?|snippets?|code|configs?|chats?|channels?|threads?|recipes?|prompts?|scripts?"
    r"|narrators?|characters?|notice|invoice|advert|texts?|paragraphs?|passages?|sentences?|phrases?|\w+\.(?:md|txt"
    r"|py|pdf|docx?|csv|json|ya?ml|toml|log|html)"
    r"|datei|mails?|e-mails?|brief|schreiben|seite|webseite|handbuch|anleitung|artikel|vertrag|protokoll|ticket|doku"
    r"|bewertung|absatz|satz|text(?:es)?|packungsbeilage"
    r"|archivo|fichero|correo|carta|página|manual|artículo|contrato|informe|reseña|párrafo|frase|texto|aviso|prospecto"
    r"|fichier|courriel|lettre|notice|contrat|texte)"
)
_MESSAGES = r"(?:messages?|notes?|comments?|statements?|lines?|nachricht|notiz|kommentar|mensaje|nota|comentario)"
"""Documents only where somebody else's or pointed at: "one note: …" is said by the user."""
_TEXT = rf"(?:{_DOCUMENT}|{_MESSAGES})"
_THIS = (
    r"(?:this|these|that|those|the following|following|below|diese[nrsm]?|folgende[nrsm]?|den folgenden|est[eao]s?"
    r"|siguientes?|ce|cette|ces|suivante?s?)"
)
_POLITE = (
    r"^\W*(?:(?:please|pls|hey|hi|hello|ok|okay|so|now|then|and|also|next|first|just|bitte|hallo|also|nun|jetzt|hola"
    r"|ahora|por favor|s'il te plaît|thanks|kindly"
    r"|can you|could you|would you|will you|can u|help me(?: to)?|i(?:'d like| want| need) you to|i(?:'d like| want"
    r"| need) (?:help )?to|let's|du sollst|kannst du|könntest du|können sie|könnten sie|puedes|podrías|puede|peux-tu"
    r"|pouvez-vous|mir|me)\W{1,5})*+"
)
_REWORK = (
    r"(?:translate|rewrite|rephrase|reword|proof-?read|summari[sz]e|paraphrase|polish|shorten|condense|spell-?check"
    r"|transcribe|copy-?edit|tl;?dr"
    r"|übersetze?n?|korrigiere?n?|umformulieren|überarbeite?n?|kürzen?|vervollständige?n?"
    r"|traduc(?:e|ir)|traduzca|corr(?:ige|egir)|resum(?:e|ir)|reescrib(?:e|ir)|reformul(?:a|ar)|acort(?:a|ar)"
    r"|traduis|traduisez|corrige[rz]?|résume[rz]?|reformule[rz]?)"
)
"""Work that is done on texts alone."""
_HANDLE = (
    r"(?:fix|improve|complete|continue|finish|expand|simplify|explain|review|analy[sz]e|grade|classify|convert|turn"
    r"|make"
    r"|check|critique|reply to|respond to|answer|interpret|format|extract|describe|look at|have a look at|read|comment"
    r" on"
    r"|evaluate|edit|correct|label|debug|rate"
    r"|fasse?n?|verbessere?n?|prüfe?n?|lies|lesen|erkläre?n?|analysiere?n?|formuliere?n?|ergänze?n?|setze?n?"
    r"|beantworte?n?"
    r"|mejora|mejorar|revisa|revisar|completa|completar|continúa|explica|explicar|analiza|analizar|lee"
    r"|complète|continue|explique|analyse|lis)"
)
_LANGUAGE = (
    r"\b(?:in(?:to)?|to|ins|auf|al|en) (?:english|german|french|spanish|italian|chinese|japanese|portuguese|dutch"
    r"|russian"
    r"|englische?|deutsche?|französische?|spanische?|inglés|alemán|francés|español|italiano|anglais|allemand|plain"
    r" english"
    r"|simple (?:words|terms|english)|einfache[rn]? worte[n]?)\b"
)
_HANDS_OVER = re.compile(
    rf"{_POLITE}(?:{_REWORK}\b(?:.{{0,60}}?\b(?:{_THIS}|it|{_TEXT})\b|.{{0,40}}?{_LANGUAGE}|\W*$)"
    rf"|{_HANDLE}\b.{{0,30}}?\b{_THIS} (?:[\w'-]+ ){{0,3}}?{_TEXT}\b"
    rf"|{_HANDLE}\b.{{0,30}}?\b(?:my|the|our|his|her|their)(?: [\w'’-]+){{0,2}}? {_TEXT}(?: please)?\W*$"
    rf"|{_HANDLE}\b.{{0,30}}?\b(?:the following|below|folgende[nrsm]?|siguientes?|suivante?s?)\b"
    r"|(?:make|turn) (?:this|these|it|that) (?:sound|look|read|into|shorter|clearer|more|less|better|friendlier)\b"
    r"|(?:fix|check|correct|improve) (?:the|my|this) (?:grammar|spelling|punctuation|english|style|wording|tone)\b"
    r"|fasse? (?:das|dies|es)\b.{0,20}\bzusammen\b)"
    rf"|^\W*(?:what(?:'s| is)|was ist|what do you (?:think|make)|thoughts|qué) (?:\w+ )?(?:wrong with|with|of|on|about"
    rf"|mit)"
    rf" {_THIS} (?:[\w'-]+ ){{0,2}}?{_TEXT}\b"
    rf"|^\W*(?:is|are) (?:this|these|that|it) (?:\w+ )?(?:{_TEXT} )?(?:correct|right|good|proper|natural|grammatical"
    r"|english|ok|okay|polite)\b"
    r"|^\W*(?:what (?:does|do) (?:this|that|it|these) (?:say|mean)|how does (?:this|that|it) (?:sound|read)"
    r"|how (?:do|would|can) (?:you|i|we) (?:say|put|translate|phrase) (?:this|that|it)|was (?:bedeutet|heißt) (?:das"
    r"|dies)"
    r"|wie (?:sagt|schreibt) man (?:das|dies)|cómo se dice esto|qué significa esto)\b"
    rf"|^\W*(?:here(?:'s| is| are)|this is|below is|hier ist|aquí (?:está|tienes)|voici) (?:the|an?|my|his|her|our"
    rf"|their|mein\w*"
    rf"|der|die|das|ein\w*|el|la|mi|un|una|mon|ma|le) (?:[\w'-]+ ){{0,2}}?{_TEXT}\b"
    r"|^\W*tl;?dr\b|^\W*(?:stack ?trace|log|logs|code|error|output|text|mail|email) (?:is )?(?:below|attached)\b"
    r"|^.{0,12}(?:翻译|润色|校对|总结|概括|改写|续写|修改|缩写|扩写|解释|分析|检查|批改|纠正|看看).{0,12}"
    r"(?:下面|以下|如下|下列|这段|这篇|这个|这封|这份|这句|一下|文字|文章|内容|邮件)",
    re.I,
)
_MACHINE = re.compile(r"\b(?:errors?|code|configs?|output|issues?|tickets?|console|stack ?traces?|logs?)$", re.I)
_ABOUT_TEXT = re.compile(
    rf"\b(?:above|{_REWORK} (?:it|this|that|these|those|them|my (?:english|grammar|spelling|{_TEXT})|this {_TEXT})"
    rf"|(?:polish|check|grade|improve|correct|fix) (?:(?:the|this) {_TEXT}|(?:the|this|my) (?:grammar|spelling|english"
    rf"|wording))"
    r"|(?:make|turn) (?:this|that|it|these) (?:sound|read|into)|(?:native|you|one|i) (?:say|put|phrase) (?:this|that"
    r"|it)"
    rf"|of these {_TEXT}|which (?:of these|one) (?:is|are|{_TEXT})|which is in"
    r"|(?:das|dies|es|den text) (?:übersetzen|korrigieren|umformulieren|verbessern|kürzen)|(?:übersetze|korrigiere"
    r"|kürze)"
    r" (?:das|dies|es|den text)|(?:traduce|corrige|resume|reescribe) (?:eso|esto|lo anterior|el texto))\b"
    r"|(?:翻译|润色|改写|总结|校对)(?:一下)?(?:上面|以上|这段|这句|它)",
    re.I,
)
_SAYS = (
    r"(?:says?|said|wrote|writes?|reads?|states?|stated|goes|told (?:me|us)|tells (?:me|us)|texted|emailed|e-mailed"
    r"|messaged|posted|replied|replies|answered|responded|claims?|claimed|insists?|announced?s?|reported|reports?"
    r"|quotes?"
    r"|quoted|commented|sent|sends|showed|shows|got|received|received|printed|prints|added|asks|asked|begins|starts"
    r"|ends"
    r"|steht|schreibt|schrieb|sagte?|meinte?|lautet|heißt(?: es)?|mailte?|antwortete?|behauptet|geschrieben|geschickt"
    r"|gesagt|erhalten|bekommen|kommt"
    r"|dice|dijo|escribió|escribe|pone|reza|respondió|contestó|afirma|envió|mandó|recibí|comentó"
    r"|dit|écrit|répond|indique|affirme|reçu)"
)
_SELF_SAYS = re.compile(
    r"\b(?:i|we|ich|wir|yo|nosotros|je|nous)(?:'ve|'d| have| had| just| also| already| always| often|\s\w+ly)* "
    r"(?:say|said|wrote|told|tell|write|state|stated|mentioned|repeat|meinte|sagte|schrieb|add|added|ask|asked|posted"
    r"|replied|answered|show|showed)\b[^:]{0,60}$|我们?[^，。]{0,4}(?:说|写)[^，。]{0,4}$",
    re.I,
)
"""The user quotes themselves: "as I said: …"."""
_SPEECH = re.compile(
    rf"\b{_SAYS}\b[^.!?:]{{0,60}}$|(?:说|写着|写道|写的是|表示|回复|声称|提到|发来|告诉我|问)[^，。]{{0,6}}$", re.I
)
_BROUGHT = re.compile(
    rf"\b(?:got|received|found|sent me|gave me|bekam|erhielt|recibí|reçu) (?:an?|this|these|the following|another"
    rf"|eine?n?|una?)"
    rf" (?:[\w'-]+ ){{0,2}}?{_TEXT}(?: (?:from|by|von|de) [^.!?:]{{1,40}})?\W*$"
    rf"|\b{_SAYS}(?: (?:me|us|this|that|today|yesterday|back|mir|uns))*\s*$",
    re.I,
)
_OF_DOCUMENT = re.compile(rf"\b{_DOCUMENT}\b|文件|邮件|合同|文章|日志|说明书|手册|通知|信|网页|上写|里写", re.I)
_HEAD = re.compile(
    rf"(?:\b{_DOCUMENT}|\b(?:{_THIS}|his|her|their|\w+'s|the) (?:\w+ )?{_MESSAGES}|\b{_THIS}"
    rf"|\b{_TEXT} (?:from|by|of|to|for|von|an|de) [^.!?:]{{1,40}})\W*$|(?:邮件|文章|内容|如下|以下|这段话|原文"
    rf"|日志)\W*$",
    re.I,
)
_TOPIC = re.compile(
    r"^\W*(?:(?:one|an|another|quick|short|small|last|update|news|about|regarding|concerning|re|as for|for|on|with|in"
    r"|zu"
    r"|wegen|bezüglich|für|sobre|para|respecto|concernant|pour|decisions?|decided|rules?|plan)\b"
    r"|(?:my|our|mein\w*|mi|mis)\b(?!.{0,30}'s )|关于)",
    re.I,
)
"""A heading of the user's own: "About the contract: …"."""
_TRANSLATES = re.compile(
    rf"{_POLITE}(?:{_REWORK}|{_HANDLE} (?:\w+ ){{0,3}}(?:{_THIS}|{_TEXT}))\b|\b(?:say|write|put|phrase"
    rf"|translate)\b.{{0,30}}{_LANGUAGE}"
    rf"|{_LANGUAGE}\W*$|(?:翻译|润色|校对|总结|概括|改写|续写|修改|缩写|扩写|批改|纠正|解释)",
    re.I,
)
_ANYWHERE = re.compile(
    rf"\b(?:can you|could you|please|kannst du|könntest du|bitte|puedes|podrías|peux-tu)\b.{{0,80}}?\b(?:{_TEXT}"
    rf"|{_THIS})\b",
    re.I,
)

_AT_HAND = r"(?:below|attached|enclosed|pasted|follows?|as follows|in the attachment|unten|anbei|adjunto|ci-joint)"
_PRESENTS = re.compile(
    rf"^\W*(?:[\w'’-]+ ){{0,6}}?{_TEXT} (?:(?:from|of|by) [^.!?:,]{{1,30}} )?(?:(?:is|are) )?(?:\w+ )?{_AT_HAND}"
    r"(?: (?:for you|here|now|again|please|fyi))?\W*$"
    rf"|\b{_TEXT} (?:contains?|holds?|includes?|has|have|enthält|contiene|contient) (?:the following|this|these"
    r"|what follows|folgendes|lo siguiente|ce qui suit)\b"
    r"|\b(?:as follows|the following|wie folgt|folgendes|lo siguiente|como sigue)\W*$"
    rf"|^\W*(?:attached|enclosed|pasted|anbei|adjunto|ci-joint)\b.{{0,60}}?\b{_TEXT}\b"
    rf"|^\W*(?:please )?(?:see|find|read)\b.{{0,60}}?\b{_TEXT}\b.{{0,20}}?\b{_AT_HAND}\W*$",
    re.I,
)
"""A sentence that says nothing but that a text is there: "Error output below.", "Attached is a page of the book."."""
_HINTS = (
    *("below", "attach", "enclos", "paste", "follow", "contain", "hold", "includ", " has ", " have ", "unten", "anbei"),
    *("folg", "enth", "adjunto", "sigu", "contien", "ci-joint", "suit"),
)
"""One of these is in every sentence that ``_PRESENTS`` matches; looking for them costs little."""
_LABEL = re.compile(
    r"^\W*(?:the |my |our |user |standard )?(?:inputs?|stdin|data|contents?|excerpts?|source|(?:pasted|copied)(?: from"
    r" [^:]{1,30})?|eingabe|entrada|entrée|输入|原文)\W*$",
    re.I,
)
"""The name of a part of a form, alone before a colon."""
_SOURCE = re.compile(r"^\W*(?:from|quoting|quoted from|per|source|out of|aus|laut|zitat aus|según|de|d'après)\b", re.I)

LONGEST_TITLE = 80
_TITLE = re.compile(
    rf"^\W*(?:[\w'’.-]+ ){{0,3}}?(?:{_TEXT}|excerpts?|copy|contents?|paste|memos?|pages?|prologue|epilogue|preface"
    r"|foreword|abstract|synopsis|prolog|epilog|vorwort|prólogo|prefacio|auszug|extracto)"
    r"(?: (?:from|of|by|to|in|von|aus|an|de) [^!?:,]{1,40}?)?\W*$",
    re.I,
)
_PREDICATE = re.compile(
    r"\b(?:i|i'm|we|you|it|he|she|they|this|that|my|our|is|are|was|were|be|has|have|had|do|does|did|can|could|will|would"
    r"|should|must|may|please|let|let's|no|not|yes|ok|okay|thanks|thank|good|great|nice|sorry|and|or|but|so|there|there's|here|here's|about"
    r"|regarding|new|next|one|ich|wir|ist|sind|bitte|kein\w*|yo|es|son|je|nous|est"
    rf"|{_REWORK}|{_HANDLE}|use|write|update|open|close|see|delete|add|send|merge|run|love|get|find|create|build|test"
    r"|show|give|tell|keep|print|ship|move|remove|need|want|use|used|start|stop|try|ask|put|save|load|commit|push)\b",
    re.I,
)
"""Words of a statement or an order: what has none of them is a title."""
_BRACKETED = re.compile(
    r"^\W{0,3}[\[(](?:from|page|pages|p\.|source|excerpt|quote|aus|seite|página)\b[^\])\n]{0,60}[\])]", re.I
)
_FORWARDED = re.compile(r"^\W*(?:fwd?|fw|wg|rv)\W*$", re.I)

FICTION = re.compile(
    r"^\W*(?:prologue|epilogue|preface|foreword|abstract|synopsis|prolog|epilog|vorwort|prólogo|prefacio|avant-propos)"
    r"\W*$|^\W*(?:chapter|kapitel|capítulo|chapitre|act|scene|akt|szene) (?:\d|[ivx]+\b|one\b)|^\W*第.{1,3}[章回幕]"
    r"|\brole-?play|\brollenspiel|\bjuego de rol|角色扮演|\bonce upon a time\b|\bes war einmal\b|\bérase una vez\b"
    r"|从前有"
    r"|\b(?:let's|lets) (?:pretend|imagine|play (?:an?|that|pretend)\b)|\bin (?:the )?first person\b|\bin der"
    r" ich-form\b|\ben primera"
    r" persona\b"
    rf"|{_POLITE}(?:continue|finish|complete|expand|carry on|go on)(?: with)? (?:the|this|my|our) (?:story|tale|novel"
    rf"|scene|poem"
    r"|diary|dialogue|text|chapter)"
    rf"|{_POLITE}(?:write|draft|compose|invent|make up|tell)(?: me)? (?:an?|the|some|another) (?:\w+ ){{0,3}}(?:story"
    rf"|tale|novel"
    r"|scene|poem|diary|monologue|dialogue|screenplay|sketch|fairy tale|ballad|limerick|fan ?fic\w*)\b"
    rf"|{_POLITE}(?:schreibe?(?: die geschichte| den text)? weiter|erzähle?|sigue la historia|continúa (?:la historia"
    rf"|el cuento)"
    r"|escribe un (?:cuento|relato|poema))\b"
    r"|(?:续写|编|写).{0,6}(?:故事|小说|童话|剧本|日记)"
    r"|^\W*(?:pretend|imagine|suppose|act as|act like|you are now|stell dir vor|imagina|假装|想象)\b",
    re.I,
)
"""A scene, a story, a role: nobody real speaks from here on."""

REPORTED = re.compile(
    rf"\b(?:the|this|that|your|its|der|die|das|dem|den|el|la|le) (?:[\w'-]+ ){{0,2}}?{_DOCUMENT} (?:also |still "
    rf"|clearly |only )?"
    r"(?:says?|said|states?|stated|reads?|claims?|insists?|warns?|tells (?:me|you|us)|sagt|schreibt|behauptet|dice"
    r"|pone|dit)"
    rf"(?: that| dass| que)?\b|\b(?:according to|laut|según|selon|gemäß) (?:the |this |dem |der |el |la |le"
    rf" )?(?:[\w'-]+ ){{0,2}}?"
    rf"{_DOCUMENT}\b|\bper (?:the|this|that|your|their) (?:[\w'-]+ ){{0,2}}?{_DOCUMENT}\b"
    rf"|\b(?:as|under) (?:the|this) (?:[\w'-]+ ){{0,2}}?{_DOCUMENT}"
    r"(?: (?:puts|has|says|states|requires)(?: it)?)?,"
    rf"|\bit (?:says|states|reads) (?:in|on) (?:the|this|that) (?:[\w'-]+ ){{0,2}}?{_DOCUMENT}\b"
    r"|\b(?:in|on) (?:the|this|that) (?:[\w'-]+ ){1,3}?it (?:says|states|reads)\b"
    rf"|(?:根据|按照)[^，。]{{0,12}}(?:文件|合同|说明书|手册|文章|规定|通知)",
    re.I,
)
"""A document's statement without a colon: "the README says you must …"."""


def announces_before_colon(words: str) -> Announces | None:
    """Say what the words before a colon announce; None if the user goes on in their own words."""
    words = words[-LOOKED_AT:]
    if _LABEL.match(words) or _FORWARDED.match(words) or is_title(words):
        return "document"
    if _TRANSLATES.search(words) or (_ANYWHERE.search(words) and _HEAD.search(words)):
        return "task"
    if _SELF_SAYS.search(words):
        return None
    if _SPEECH.search(words):
        return "document" if _OF_DOCUMENT.search(words) else "person"
    return "document" if _HEAD.search(words) and not _TOPIC.search(words) else None


def is_title(words: str) -> bool:
    """Tell whether words only name a text ("Copy of the memo."): they state nothing and order nothing."""
    return len(words) <= LONGEST_TITLE and _TITLE.match(words) is not None and _PREDICATE.search(words) is None


def after_bracket(sentence: str) -> int | None:
    """Return where the text begins that a bracket says the source of ("(from the book) …")."""
    found = _BRACKETED.match(sentence[:LOOKED_AT])
    return None if found is None else found.end()


def names_source(words: str) -> bool:
    """Tell whether the words before a dash only say where a text is from ("From the manual - …")."""
    if is_title(words):
        return True
    return _SOURCE.match(words) is not None and _HEAD.search(words[-LOOKED_AT:]) is not None


def presents(sentence: str) -> bool:
    """Tell whether a sentence only says that a text is there, or is its title."""
    looked_at = sentence[:LOOKED_AT].lower()
    may_match = any(hint in looked_at for hint in _HINTS)
    return (may_match and _PRESENTS.search(looked_at) is not None) or is_title(sentence)


def brings_along(line: str) -> bool:
    """Tell whether a line without a colon ends with what brings somebody's words along ("I got a strange letter.")."""
    return _BROUGHT.search(line[-LOOKED_AT:]) is not None and _SELF_SAYS.search(line[-LOOKED_AT:]) is None


def hands_over(sentence: str, *, closes_line: bool) -> bool:
    """Tell whether a sentence asks for work on a text that is to follow; an error or code begins a line of its own."""
    found = _HANDS_OVER.search(sentence[:LOOKED_AT])
    return found is not None and (closes_line or _MACHINE.search(found[0]) is None)


def points_back(sentence: str) -> bool:
    """Tell whether a sentence, the last of its message, asks for work on what stands before it."""
    return _ABOUT_TEXT.search(sentence[:LOOKED_AT]) is not None
