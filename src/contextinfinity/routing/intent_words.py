"""Vocabulary of intents: English first, then German, French and Spanish.

Word lists, and patterns that run in linear time. Words that are as often used in another sense are omitted: a message
that is not recognised is answered by the default model.
"""

from __future__ import annotations

import re
from functools import cached_property

from contextinfinity.text.cues import words

_PLAIN = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
_TIED = frozenset({"l", "d", "qu"})
_QUOTES = str.maketrans("’", "'")


class IntentSigns:
    """A text prepared for matching: lower case, and its words."""

    def __init__(self, text: str) -> None:
        self.text = text.lower().translate(_QUOTES)

    @cached_property
    def list(self) -> list[str]:
        """The words, in order."""
        return words(self.text)

    @cached_property
    def words(self) -> frozenset[str]:
        """The set of words; French elided words are also included without their prefix."""
        tied = (word.partition("'") for word in self.list if "'" in word)
        return frozenset(self.list).union(word for front, _, word in tied if front in _TIED)


class Signs:
    """Words and phrases with the same meaning; words are looked up, phrases are searched.

    They are compiled on first use, because that is too slow for start-up.
    """

    def __init__(self, listed: str) -> None:
        self._listed = listed

    @cached_property
    def _all(self) -> frozenset[str]:
        return frozenset(one for part in _parts(self._listed) for one in _both(" ".join(part.split())))

    @cached_property
    def _words(self) -> frozenset[str]:
        return frozenset(part for part in self._all if _PLAIN.fullmatch(part))

    @cached_property
    def _phrases(self) -> re.Pattern[str]:
        phrases = sorted(self._all - self._words, key=lambda phrase: (-len(phrase), phrase))
        return re.compile(rf"(?<!\w)(?:{'|'.join(phrases)})(?!\w)" if phrases else r"(?!)")

    def seen_in(self, read: IntentSigns) -> bool:
        """Return whether a text contains any of them."""
        return not self._words.isdisjoint(read.words) or self._phrases.search(read.text) is not None

    def number_in(self, read: IntentSigns) -> int:
        """Return how many different ones a text contains."""
        return len(self._words & read.words) + len(set(self._phrases.findall(read.text)))

    def open(self, read: IntentSigns) -> bool:
        """Return whether a text starts with one of them."""
        return read.list[:1] != [] and (read.list[0] in self._words or self._phrases.match(read.text) is not None)

    def words_outside(self, read: IntentSigns) -> frozenset[str]:
        """Return the words of a text that are not part of any of them."""
        return IntentSigns(self._phrases.sub(" ", read.text)).words - self._words


def _parts(listed: str) -> list[str]:
    """Split a list at the bars outside of brackets."""
    parts, depth = [""], 0
    for sign in listed.strip():
        depth += (sign == "(") - (sign == ")")
        if sign == "|" and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return parts


def _both(part: str) -> tuple[str, ...]:
    """Return a word with and without its optional last letter."""
    return (part[:-2], part[:-1]) if part.endswith("?") and _PLAIN.fullmatch(part[:-1]) else (part,)


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


# --- code

SURELY_CODE = Signs(
    r"""
    traceback \(most recent call last\)|segfault|segmentation fault|access violation|core dump|stack ?trace|backtrace
    |exit code \d+|error\[[a-z]?\d+\]|[a-z]\w{1,60}(?:error|exception):|syntax error|memory leak|merge conflicts?
    |undefined reference|cannot find symbol|refactor\w{0,3}|unit tests?|regexp?|regular expressions?|time complexity
    |binary search|binary tree|hash ?map|linked list|race condition|dead ?lock|mutex|semaphore|garbage collect(?:or|ion)
    |pull requests?|code ?base|source code|command line|stack ?overflow|localhost|event listener|list comprehension
    |git|github|gitlab|javascript|typescript|node\.?js|npm|yarn|powershell|bash|zsh|sql|mysql|mariadb|postgres(?:ql)?
    |sqlite|mongodb|redis|kafka|rabbitmq|elasticsearch|graphql|grpc|protobuf|kubernetes|kubectl|k8s|docker(?:file)?
    |terraform|ansible|jenkins|maven|gradle|cmake|makefile|gcc|clang|llvm|jvm|webpack|vite|eslint|pytest|jest|junit
    |selenium|playwright|flask|fastapi|django|laravel|angular|vue|svelte|next\.?js|tailwind|jquery|oauth2?|jwt
    |websockets?
    |tcp|udp|ssh|sudo|apt-get|virtualenv|pypi|pandas|numpy|scipy|pytorch|tensorflow|jupyter|dataframes?|sqlalchemy|aws
    |azure|firebase|heroku|nginx|systemd|cron(?:tab)?|awk|grep|curl|wget|chmod|vim|emacs|vs ?code|xcode|css|html
    |c\+\+|c\#
    |golang|haskell|ocaml|scala|clojure|elixir|erlang|fortran|cobol|matlab|solidity|vba|compiler|compilation|linter
    |type ?error|nullpointerexception|async|await|boolean|enum|struct|nullable|iterator|(?:left|inner|outer) join
    |web ?hooks?|middleware|backend|frontend|microservices?|pagination|http request
    |quell(?:text|code)|speicherleck|asynchrone?[nrs]?|kompilier\w{1,6}|datenstruktur|code source|compilateur
    |requête http
    |base de données|código fuente|compilador|no compila|base de datos|error de sintaxis
    """
)
TOOLS = Signs(
    r"""
    python|java|rust|php|ruby|kotlin|swift|perl|lua|react|linux|unix|apache|json|yaml|xml|csv|api|apis|sdk|cli|ide
    |https?
    |s3|ec2|iam|vpc|in go|in c|ci|ci/cd|code|coding|script|skript|código|debug
    """
)
"""Names of programming tools; most have other meanings, too."""
PROGRAMMING = Signs(
    r"""
    endpoint|bugs?|functions?|methods?|class|variables?|arrays?|loops?|strings?|integers?|pointers?|threads?|interface
    |commits?|merge|branch|repo(?:sitory)?|compiles?|implement|algorithm|recursive|iterative|database|query|queries
    |index
    |migration|o\(1\)|o\(n\)|o\(log n\)|cache|pipeline|dependenc(?:y|ies)|div|imports?|deploy(?:ment)?|servers?|proxy
    |routes?|tokens?|cursor|logs?|bucket|cluster|container|pod|command|flag|parse|sort(?:ed)?|dictionar(?:y|ies)
    |[45]\d\d|stdin|stdout|null|undefined|production|staging|line \d+
    |funktion|schleife|datenbank|programm(?:iere)?|abfrage|fehlermeldung|methode|klasse|befehl|stürzt|zeilen
    |fonction|boucle|dictionnaires?|méthode|classe|tableau|variable d'environnement|appel|requête|erreur|liste
    |función|bucle|consulta|programa|comando|método|clase|filas|compila|join|archivo|lista
    """
)
"""Programming terms that are also common words: they need a name beside them, or two others."""
CODE_LINE = re.compile(
    r"(?:[;{}]|\):|=>|->)\s*$|^\s*(?:def |class |import |from \w+ import|#include|//|fn |func |function |const |let "
    r"|var |public |private |return\b|if ?\(|for ?\(|while ?\(|select .{1,200} from |</?\w+>)",
    re.I,
)
CODE_ERROR = re.compile(r"\b[A-Z][A-Za-z]{1,60}(?:Error|Exception)\b")
SHELL_PIPE = re.compile(r"\w \| [a-z]{2,12}\b")
CODE_ENDINGS = _listed(
    "py pyi ipynb js mjs cjs ts tsx jsx css scss toml json yaml yml sql rs go java kt swift c h cc cpp hpp cs rb php "
    "sh bash ps1 proto tf"
)
NO_SYMBOLS = _listed("iphone iphones ipad ipads ios macos imac ipod icloud itunes ebay")
"""Names that are written like identifiers."""

# --- small talk

GREETINGS = _listed(
    """
    hi hello hey hiya howdy yo greetings morning afternoon evening night goodnight bye goodbye ciao thanks thank thx ty
    tysm cheers welcome lol haha hahaha hehe rofl cool nice great awesome amazing perfect wonderful brilliant wow
    congrats congratulations ttyl brb
    hallo moin servus grüezi tschüss tschau dank danke dankeschön super prima toll klasse abend nacht gruß grüße
    bonjour bonsoir salut coucou merci bienvenue parfait génial bravo félicitations
    hola adiós gracias genial perfecto felicidades enhorabuena
    """
)
AROUND_GREETINGS = GREETINGS | _listed(
    """
    there all everyone again you u your you're youre are is was it it's its that's thats that this a an the so very much
    many for help helping one how things been today tonight and i i'm im am me my fine good see later soon tomorrow take
    day weekend week mate friend dear buddy pal man funny helpful kind sweet lovely best smart star to sounds really
    just
    of lot bunch ok okay k yes yeah yep sure no well too oh everything made laugh had have hope gotta go now
        das war sehr hilfreich gut guten gute schön schönen schönes und auch dir ihnen euch ja ok so viel viele
    vielen für
    alles einen eine die hilfe na morgen du tag
    très bien beaucoup pour ton ta votre aide tout et oui c'est c'était bon bonne à toi vous demain
    muy bien muchas muchos por todo tu su ayuda y sí que día tengas un
    """
)
PHATIC = Signs(
    r"""
    how(?:'s| is| are| have) (?:it going|you(?: doing| been)?(?: today)?|things|life)|what(?:'s| is) up
    |(?:nice|good|great|lovely) to (?:meet|see) you|long time no see|(?:see|talk to|catch) (?:you|ya)(?: later| soon)?
    |talk (?:later|soon)|take care|sleep well|sweet dreams|good luck|good job|well done|have fun|my pleasure|no worries
    |no problem|never mind
    |you(?:'re| are) (?:welcome|(?:the )?(?:best|great|amazing|awesome|funny|a (?:star|lifesaver)))
    |have an? (?:good|nice|great|lovely) (?:day|one|weekend|evening|night)
    |(?:i )?hope you(?:'re| are| had)?(?: doing)?(?: well| a good (?:weekend|day))
    |(?:i )?(?:really )?appreciate it|(?:happy|merry) (?:new year|birthday|christmas|holidays|easter|friday)
    |good (?:morning|afternoon|evening|night)
    |wie geht(?:'?s| es (?:dir|ihnen|euch))?|wie läuft'?s|was geht|alles (?:klar|gut)(?: bei dir)?|grüß (?:dich|gott)
    |guten (?:morgen|tag|abend)|gute nacht|schöne[ns]? (?:wochenende|tag|abend|feierabend)
    |bis (?:bald|später|morgen|dann)
    |frohe (?:weihnachten|ostern)|frohes neues(?: jahr)?|guten rutsch|alles gute|herzlichen glückwunsch|kein problem
    |gern geschehen|freut mich|mach'?s gut|(?:vielen|tausend|herzlichen|besten) dank|du hast mir (?:sehr )?geholfen
    |ça va(?: bien)?|comment (?:vas-tu|allez-vous|ça va)(?: aujourd'hui)?|(?:tu vas|vous allez) bien|quoi de neuf
    |bonne (?:journée|soirée|nuit|année|chance)|bon (?:week-end|courage)|joyeux (?:noël|anniversaire)|de rien|enchantée?
    |à (?:bientôt|demain|plus(?: tard)?)|pas de (?:souci|problème)
    |qué (?:tal|hay)|cómo (?:estás|está|va|te va)|hasta (?:luego|mañana|pronto)|nos vemos|buen(?:os|as) (?:días|tardes)
    |buenas noches|buen (?:día|fin de semana)|buena suerte|feliz (?:año(?: nuevo)?|navidad|cumpleaños)|de nada
    |encantad[oa]
    """
)

# --- documents

DOCUMENT = Signs(
    r"""
    documents?|pdfs?|papers?|reports?|contracts?|agreements?|lease|thesis|dissertation|manuscripts?|transcripts?|books?
    |chapters?|articles?|essays?|minutes|novels?|handbook|manual|filing|policy|ruling|interview|bill|notes|statutes?
    |dokumente?|verträge?|vertrag|gutachten|bericht|protokoll|arbeit|masterarbeit|bachelorarbeit|aufsatz|buch|kapitel
    |satzung|mietvertrag|urteil|datei|roman|jugement|rapport|contrat|mémoire|thèse|article|livre|chapitre|compte rendu
    |documento|informe|contrato|tesis|artículo|libro|capítulo|acta
    """
)
BROUGHT_ALONG = Signs(
    r"""
    attached|attachments?|attaching|uploaded|uploading|enclosed|(?:just|have|i) sent(?: you)?|full text
    |\d{2,4}[- ]pages?
    |angehängte?[nrs]?|im anhang|anbei|beigefügte?[nrs]?|hochgeladene?[nrs]?|\d{2,4} seiten
    |ci-jointe?s?|pièce jointe|en annexe|texte intégral|viens d'envoyer|t'ai envoyé
    |adjunt[oa]s?|texto completo|te (?:he enviado|mando|envío)|\d{2,4} páginas
    """
)
WORKING_ON_A_TEXT = Signs(
    r"""
    summari[sz]e|summary|tl;?dr|proofread|translate|go through|review|extract|fasse|zusammenfass\w{1,9}|übersetze
    |korrektur|lies|résume[rz]?|traduis|traduire|relis|relire|resume|resumir|traduce|traducir|revisa
    """
)

# --- facts

LEADING_UP = re.compile(
    r"^(?:\W|(?:hey|hi|hello|hallo|bonjour|hola|ok|okay|so|and|please|bitte|also|und|et|y|now)\b"
    r"|(?:can|could|would) you (?:please )?(?:tell me|look up|find out|check)\b|do you know\b|tell me\b"
    r"|quick question\b|i(?:'d| would) like to know\b|i wonder\b|(?:kannst du mir sagen|weißt du|sag mir)\b"
    r"|(?:peux-tu me dire|sais-tu|dis-moi)\b|(?:puedes decirme|sabes|dime)\b){1,9}",
    re.I,
)
"""Phrases that precede a question."""
ABOUT_US = _listed(
    """
    i i'm i've i'd i'll me my mine myself we we're us our ours you you're your yours
    ich mich mir mein meine meinem meinen meiner meines wir uns unser unsere unserem unseren du dich dir dein deine
    je j'ai moi mon ma mes nous notre nos tu toi ton ta tes vous votre vos
    yo mi mis nosotros nuestro nuestra tú tu tus te
    """
)
"""The question is about the people in the conversation, not about the world."""
POINTING = _listed(
    "he she it they him them his hers its their theirs this that these those above er sie ihn ihm ihr il elle ils "
    "elles él ella ellos eso esto"
)
ASKS_FIRMLY = Signs(
    r"""
    who(?:'s)?|whose|whom|when|where|what happened|what year|what time|wer|wem|wessen|wann|wo|woher|wohin
    |was (?:kostet|kosten|geschah|passierte|ist passiert)|wie (?:viele?|hoch|alt|weit|groß|lange?|teuer|tief|schwer)
    |qui|quand|où|combien|en quelle année|qu'est-il arrivé|quién(?:es)?|cuándo|dónde|cuánt[oa]s?|qué (?:pasó|año)
    """
)
ASKS = Signs(
    r"""
    what|what's|what are|which|how (?:many|much|tall|old|far|big|high|long|deep|large|fast|heavy|wide)|is|are|was
    |were|did
    |does|do|has|have|will|any|was|welche[rsnm]?|ist|sind|hat|quel(?:le)?s?|est-ce que|cuál(?:es)?|qué|está|es
    """
)
FACTS = Signs(
    r"""
    weather|forecast|temperature|prices?|cost|stock|exchange rate|population|inhabitants|capital|president
    |prime minister|chancellor|ceo|mayor|king|queen|pope|score|winner|elections?|news|opening hours|open on
    |release date|gdp|inflation
    |distance|currency|time ?zones?|timetable|headquarters|founder|founded|born|died|invented|studies|come out|won|win
    |border|strike|(?:tall|larg|deep|long|high|old|fast|small|rich|bigg|hott|cold)est|share price
    |wetter|preis|kurs|einwohner|hauptstadt|präsident(?:in)?|(?:bundes)?kanzler(?:in)?|nachrichten|öffnungszeiten|wahl
    |liegt|geboren|gestorben|erfunden|kostet
    |météo|prix|capitale|habitants|président|élections?|horaires|nouvelles|né|née|coûte
    |precio|tiempo hace|habitantes|presidente|elecciones|noticias|horario|nació|cuesta
    """
)
FRESH = Signs(
    r"""
    today|tonight|tomorrow|yesterday|right now|currently|current|latest|newest|recent|recently|at the moment|these days
    |(?:this|last|next) (?:week|month|year|season|night|weekend|summer|winter|spring|autumn|fall)|breaking|20[2-4]\d
    |on (?:mon|tues|wednes|thurs|fri|satur|sun)days?
    |heute|gestern|gerade|aktuelle?[nrs]?|derzeit|zurzeit|momentan|neueste[nrs]?|diese woche|dieses jahr
    |letzte[nrs]? (?:woche|jahr|nacht|monat)
    |aujourd'hui|hier|demain|actuel(?:le)?s?|actuellement|en ce moment|cette (?:année|semaine)|récent(?:e|es|s)?
    |hoy|ayer|actual(?:es)?|actualmente|ahora mismo|este (?:año|mes)|esta semana|últim[oa]s? noticias|próxim[oa]s?
    """
)
SUPPOSING = Signs("would|could|should|might|würde|sollte|könnte|devrait|pourrait|debería|podría|think|better|best")
"""The question asks for an opinion or a hypothesis."""
TASKS = Signs(
    r"""
    write|draft|explain|translate|give|plan|help|make|rewrite|rephrase|brainstorm|remember|suggest|imagine|compose
    |create|describe|compare|list|if|why|how (?:should|can|could|do)|schreibe?|formuliere|erkläre?|übersetze?|hilf|plane
    |écris|aide|explique|traduis|propose|escribe|ayuda|ayúdame|explica|explícame|traduce|dame|cómo puedo
    """
)
"""Openings of messages that want something written or explained, whatever facts they mention."""
