"""How people say what they are, have, like and want: one table of phrases.

A row is what it is about, the fact as a sentence, and the ways to say it. ``{x}`` is what was named, ``{k}`` the same
in a form that its other forms share. Rows with one ``about`` are about what can be true once: the later one counts.
Every pattern is bounded, so that time grows with the text.
"""

from __future__ import annotations

import re

from msgspec import Struct

from contextinfinity.domain.memory import MemoryKind

END = (
    r"(?=\s*(?:[,;:!?()]|\.(?:\s|$)|$|\s[-–—]+\s)"
    r"|\s+(?:und|aber|weil|et|mais|y|pero|porque)\b"
    r"|\s+(?:but|because|although|though|so|which|while|where|whereas|however|plus)\b"
    r"|\s+(?:and|or|since|when|if|as|that|who|after|before|until)\s+(?:i|i'm|i've|i'd|i'll|we|we're|my|it|it's|he"
    r"|she|they"
    r"|you|the|this|that|there|so|its|now|then|also|always|never|have|has|am|was|work|live|love|like|hate|enjoy|prefer"
    r"|don't|can't|moved|started|just|would|could|want|need|hope|thought|think)\b)"
)
X = r"(?P<x>[^,;:!?()\"]{2,90}?)" + END
NAME = r"(?P<x>[A-ZÀ-Þ][\w'-]{1,30}(?:[ -][A-ZÀ-Þ][\w'-]{1,30}){0,2})(?![\w'-])"
_VERY = (
    r"(?:(?:mostly|mainly|really|absolutely|totally|just|still|also|simply|do|truly|always|genuinely|especially"
    r"|particularly"
    r"|quite) )*"
)
NOW = r"(?:(?:now|currently|still|actually|just|recently|also|finally|already) )*"
AM = r"\bi(?:'m| am) "


class Row(Struct, frozen=True):
    """One thing that can be said of somebody, and how."""

    kind: MemoryKind
    weight: int
    about: str
    fact: str
    pattern: re.Pattern[str]
    never: re.Pattern[str]
    """What is named then is not meant."""
    ends: tuple[str, ...] = ()
    """The sorts of facts of which it ends the one that names the same."""


POINTING = (
    r"^(?:it|this|that|them|these|those|you|your|yours|him|her|his|he|she|they|their|what|how|when|where|why|who|which"
    r"|everything|anything|something|nothing|everyone|the (?:way|idea|fact|part|thing|things|sound|look|rest|same"
    r"|one|first"
    r"|second|new one|photo|picture|name|color|colour|view|story|quote|energy|vibe|concept|message|result"
    r"|details?)\b.*|so|to"
    r"|one|ones|some|any|all|both|more|much|most|a lot|hearing|seeing|being|talking|chatting|knowing|that's|it's"
    r"|such|another|other|others|too|not)(?:\b|$)"
)


def row(
    kind: MemoryKind, weight: int, about: str, fact: str, *ways: str, never: str = "", ends: tuple[str, ...] = ()
) -> Row:
    """Make a row of the ways to say something."""
    pattern, refused = re.compile("|".join(_named(ways)), re.I), re.compile(never or r"(?!)", re.I)
    return Row(kind, weight, about, fact, pattern, refused, ends)


def _named(ways: tuple[str, ...]) -> list[str]:
    """Number the groups, since a pattern may have a name only once."""
    return [re.sub(r"\(\?P<(\w)>", rf"(?P<\g<1>{place}>", way) for place, way in enumerate(ways)]


_PLACE = (
    rf"^(?:fear|hope|denial|pain|peace|constant|limbo|chaos|poverty|luxury|harmony|terror|dread|shame|exile|isolation"
    rf"|hell|misery|style|comfort|general|it|the (?:moment|past|present|future|area|same|now)|my|our|there|here"
    rf"|settings"
    rf"|preferences|options)\b"
    r"|^(?:kubernetes|docker|react|angular|vue|svelte|next\.?js|node(?:\.?js)?|aws|azure|gcp|google cloud|python"
    r"|rust|go"
    r"|golang|java|kotlin|swift|typescript|javascript|ruby|rails|django|postgres\w*|mysql|sqlite|mongo\w*|redis|kafka"
    r"|linux|windows|mac ?os|ubuntu|github|gitlab|bitbucket|jira|slack|teams|notion|figma|terraform|helm|bazel|cmake"
    r"|graphql|grpc|excel|word|outlook|vim|emacs|vs ?code|chrome|firefox|android|ios|cloud|serverless|microservices"
    rf"|agile|scrum|kanban|phase|step|plan [a-z0-9]\b|version|chapter|[A-Z]*SQL)\b|{POINTING}"
)
HABITAT = re.compile(
    r"\b(?:village|town|city|house|flat|apartment|countryside|suburbs?|farm|dorm|studio|cottage|island|mountains|coast"
    r"|north|south|east|west|neighbou?rhood|district|shared flat|camper ?van|houseboat|capital)\b",
    re.I,
)
"""Where people live, besides what has a name."""
_LIKED = (
    rf"{POINTING}|^(?:to (?:know|see|hear|ask|thank|think|say|be|have|add|get|go|learn about|discuss)|if|for you"
    rf"|sharing"
    r"|having you|having this|our (?:chat|talk|conversation)s?|working with you|catching|the (?:book|movie|film|song"
    r"|shot|new)|(?:option|version|variant|draft|choice|suggestion|answer|approach|solution|alternative"
    r"|proposal|number|plan) (?:\w|\d+)\b)\b"
    r"|\b(?:this|these|those|him|it|it's|itself|you|your|you're)\b|\bthat \w+$"
)
JOB = (
    r"(?:[\w-]+ ){0,3}?(?:\w+(?:er|or|ist|ian|eer|ant|ect|ician)|nurse|chef|cook|student|pilot|clerk|judge|coach"
    r"|scientist"
    r"|analyst|consultant|freelancer|secretary|midwife|vet|veterinarian|physician|surgeon|lawyer|attorney|dentist|guide"
    r"|mechanic|therapist|intern|apprentice|phd student|researcher|monk|priest|soldier|farmer|barista|nanny|sre|ceo|cto"
    r"|founder|entrepreneur|homemaker|stay-at-home (?:mum|mom|dad|parent))"
)
NO_JOB = (
    r"(?:member|beginner|believer|fan|lover|reader|learner|owner|user|customer|speaker|winner|loser|number|father"
    r"|mother"
    r"|brother|sister|foreigner|newcomer|stranger|outsider|survivor|singer at heart|christian|vegetarian|canadian"
    r"|italian"
    r"|australian|american|indian|brazilian|russian|norwegian|egyptian|hungarian|ukrainian|romanian|belgian"
    r"|perfectionist"
    r"|realist|optimist|pessimist|feminist|minimalist|buyer|sucker|supporter|listener|follower|goner|caller|better"
    r"|quitter"
    r"|cancer|libertarian|humanitarian|pescatarian|giant|elephant|infant|participant|descendant|immigrant|applicant"
    r"|subscriber|early riser|night owl|morning person|whatever|however|later|over|under|other|another|never|ever"
    r"|monster"
    r"|hipster|smoker|swimmer|runner|jogger|climber|hiker|cyclist|biker|golfer|surfer|skier|drinker|eater|sleeper"
    r"|riser|thinker|dreamer|worrier|hoarder|pensioner|vaper|teetotall?er|team player|taxpayer|tax payer|minor"
    r"|stutterer"
    r"|widower|commuter|traveller|traveler|camper|hander|gamer|cat lover|dog lover|homeowner|teenager|disaster"
    r"|matter|sort|person|expert|bit rusty on|lifer)$"
)
_PRAISE = (
    r"^an? (?:very |really |pretty |rather )?(?:terrible|bad|good|great|better|worse|slow|fast|careful|lousy"
    r"|decent|picky"
    r"|heavy|fussy|avid|keen|strong|weak|poor|early|late|happy|proud|lucky|total|true|real|huge|big)\b"
)
"""How well somebody does something is not what they live by."""
_ONE = (
    r"wife|husband|partner|girlfriend|boyfriend|fiancée?|spouse|mother|mom|mum|father|dad|boss|manager|landlord|doctor"
    r"|dentist|therapist|company|startup|business|project|team|cat's|dog's"
)
_MANY = (
    r"dog|puppy|cat|kitten|horse|rabbit|parrot|hamster|son|daughter|brother|sister|best friend|baby|child|kid|twins?"
)
OWN = (
    r"(?:email(?: address)?|e-mail(?: address)?|phone number|address|birthday|blood type|native language|mother tongue"
    r"|first language|time ?zone|shoe size|hometown|home town|major|degree|nationality|favou?rite (?!thing|part|one"
    r"|place to|time of)[\w -]{2,30}?|pronouns"
    r"|employee (?:id|number)|github(?: handle| username)?|username|handle|zodiac sign|star sign|budget|deadline|height"
    r"|weight|diet|working hours|office hours|preferred [\w -]{2,30}?|default [\w -]{2,30}?|operating system|laptop"
    r"|stack)"
)
STATES = (
    r"diabetic|coeliac|celiac|asthmatic|colou?r[- ]?blind|dyslexic|deaf|hard of hearing|pregnant|lactose"
    r"[- ]intolerant|gluten[- ]intolerant|teetotal|sober|autistic|bilingual|an? (?:introvert|extrovert|insomniac"
    r"|only child"
    r"|orphan|twin|diabetic|early riser|night owl|morning person|night person|perfectionist|foreigner|immigrant|refugee"
    r"|veteran|teetotaller|smoker|non-smoker)"
)
_KIN = (
    r"wife|husband|partner|girlfriend|boyfriend|fiancée?|spouse|mother|mom|mum|father|dad|son|daughter|brother|sister"
)
_ILL_HOW = r"severe|mild|chronic|bad|really bad|terrible|occasional|late-onset|a bit of"
ILLNESS = (
    r"(?:type (?:1|2|one|two) |gestational )?diabetes|asthma|epilepsy|adhd|(?-i:ADD)|ocd|ptsd|dyslexia|dyscalculia"
    r"|arthritis"
    r"|co?eliac disease|crohn's(?: disease)?|migraines?|high blood pressure|hypertension|depression|anxiety|insomnia"
    r"|autism|ibs|tinnitus|psoriasis|eczema|hay fever|gout|sleep apn(?:o?)ea|parkinson's|multiple sclerosis"
    r"|fibromyalgia"
    r"|endometriosis|hypothyroidism|a heart condition|a pacemaker|lactose intolerance|a gluten intolerance|aphantasia"
)
_CODED = (
    r"(?:Python|Rust|Golang|Go|Java|JavaScript|TypeScript|C\+\+|C#|C|Ruby|Kotlin|Swift|PHP|Haskell|Scala|Elixir|Clojure"
    r"|Perl|R|Julia|SQL|COBOL|Fortran|Lua|Zig|OCaml|Erlang|Bash|Dart)(?![\w+#-])"
)
_DIET = (
    r"(?:a |an |strictly |strict |fully |completely )*(?P<x>vegan|vegetarian|pescatarian|flexitarian|omnivore"
    r"|keto|kosher|halal)\b"
)

ROWS: tuple[Row, ...] = (
    row(
        "self", 9, "name", "The user's name is {x}",
        rf"\bmy (?:first |full |real )?name(?:'s| is)(?: actually| now)? (?-i:{NAME})(?! (?:is|was|has|are)\b)",
        rf"\b(?:you can |please |just |everyone |people |friends )*call(?:s)? me (?-i:{NAME})(?! (?:back|later"
        rf"|when|if|at))",
        rf"\bi go by (?-i:{NAME})", rf"^i(?:'m| am) (?-i:{NAME})(?= from (?-i:[A-ZÀ-Þ]))",
        rf"\bmy name(?:'s not| is not| isn't) [\w'-]{{1,30}},? (?:it's|it is|but) (?-i:{NAME})",
        rf"^(?:hi|hello|hey)\b[^.!?]{{0,20}}?\b(?:i'm|i am|this is) (?-i:{NAME})(?=[.,!]|$| and\b| from\b| here\b)",
        rf"\bich heiße (?-i:{NAME})", rf"\bmein name ist (?-i:{NAME})",
        rf"\bje m'appelle (?-i:{NAME})", rf"\bme llamo (?-i:{NAME})",
        never=r"^(?:not|the|a|maybe|ok|okay|it|back|when|if|later|today|tomorrow|tonight|anytime|\w+day)\b",
    ),
    row(
        "self", 6, "age", "The user is {x} years old",
        rf"{AM}{NOW}(?P<x>\d{{1,2}})(?: years old| years of age|yo\b"
        rf"| y/o)", rf"{AM}{NOW}(?P<x>[1-9]\d)(?=\s*(?:[.!](?:\s|$)|,\s|$)| and i\b| now\W*$)",
        r"\bi(?:'ve| have)? (?:just |recently )?turned (?P<x>\d{1,2})\b", r"\bmy age is (?P<x>\d{1,2})\b",
        r"\bich bin (?P<x>\d{1,2}) jahre alt", r"\bj'ai (?P<x>\d{1,2}) ans\b", r"\btengo (?P<x>\d{1,2}) años\b",
    ),
    row(
        "self", 8, "home", "The user lives in {x}",
        rf"\b(?:i|we) {NOW}(?:live|reside) in {X}", rf"\b(?:i'm|i am|we're|we are) {NOW}(?:living|based"
        rf"|residing) in {X}",
        rf"\b(?:i|we)(?:'ve| have)? {NOW}(?:moved|relocated)(?: back| over| out)? (?:from [\w ]{{2,30}} )?to {X}",
        rf"\b(?:i|we)(?:'ve| have) lived in (?P<x>[\w' -]{{2,40}}?) (?:for|since) (?:[\w']+ ?){{1,4}}{END}",
        rf"\b(?:i|we)(?:'ve| have) been (?:living|based|residing) in {X}",
        r"\bactually,? i(?:'m| am) in (?P<x>(?-i:[A-ZÀ-Þ])[\w' -]{2,40}?) now(?=\W|$)",
        r"\b(?:i|we)(?:'ve| have)? (?:just )?moved(?: house)?[,;] (?:so )?(?:i'm|i am|we're|we are) (?:now )?in"
        r" (?P<x>(?-i:[A-ZÀ-Þ])[\w' -]{2,40}?)(?: now)?(?=\W*$)",
        rf"\bmy (?:new )?(?:home|home town|city) (?:is|is now) (?:in )?{X}", rf"(?<!the )\bhome is (?:now )?in {X}",
        rf"\bich (?:wohne|lebe) (?:jetzt )?in {X}", r"\bich bin nach (?P<x>[\w -]{2,40}?) (?:um)?gezogen\b",
        rf"\bj'habite (?:à|en|au) {X}", rf"\b(?:vivo|vivimos) en {X}", rf"\bme mudé a {X}",
        never=_PLACE,
    ),
    row(
        "self", 5, "from", "The user is from {x}",
        rf"{AM}(?:originally )?from (?-i:(?=[A-ZÀ-Þ]|the )){X}", r"\bi (?:grew up|was (?:born(?: and raised)?"
        r"|raised)) in"
        r" (?P<x>(?-i:[A-ZÀ-Þ])[\w' -]{2,40}?)" + END,
        never=_PLACE,
    ),
    row(
        "self", 8, "job", "The user works as {x}",
        rf"\bi {NOW}work(?:ed|ing)? as (?P<x>(?:an?|the) [^,;:!?()\"]{{2,60}}?)(?: (?:at|for"
        rf"|with) (?P<e>(?-i:[A-ZÀ-Þ])[^,;:!?()\"]{{1,60}}?)| in [^,;:!?()\"]{{2,60}}?)?{END}",
        rf"{AM}{NOW}working as (?P<x>(?:an?|the) [^,;:!?()\"]{{2,60}}?)(?: (?:at|for"
        rf"|with) (?P<e>(?-i:[A-ZÀ-Þ])[^,;:!?()\"]{{1,60}}?)| in [^,;:!?()\"]{{2,60}}?)?{END}",
        rf"{AM}{NOW}(?P<x>(?:the |an? )?(?:ceo|cto|cfo|co-?founder|founder|head|director|owner|editor) (?:of|at)"
        rf" [^,;:!?()\"]{{2,40}}?){END}",
        rf"{AM}{NOW}(?P<x>an? {JOB}) (?:at|for) (?P<e>(?-i:[A-ZÀ-Þ])[^,;:!?()\"]{{1,60}}?){END}",
        rf"{AM}{NOW}(?P<x>an? {JOB})(?= (?:at|for|in|from|by|with|based|and|who|now|these|again|but)\b|\s*[.,;!]|$)",
        rf"\bi(?:'ve| have)? {NOW}(?:became|become|got promoted to|been promoted to|was promoted to"
        rf"|started (?:working )?as"
        rf"|started a (?:new )?job as) (?P<x>(?:an? )?{JOB})(?= (?:at|for|in|from|by|with|and|who|last|this)\b"
        rf"|\s*[.,;!]|$)",
        rf"\bmy (?:new |current )?(?:job|profession"
        rf"|occupation)(?: title)? is (?:now )?(?P<x>(?:an? )?[^,;:!?()\"]{{2,50}}?){END}",
        rf"\bich arbeite (?:jetzt )?als {X}", rf"\bje suis (?P<x>{JOB}|infirmi[eè]re?|médecin|professeure?)\b",
         rf"\btrabajo como {X}",
        never=rf"{NO_JOB}|{POINTING}|{_PRAISE}|(?-i:\b[A-Z][a-z]+(?:er|ian|ist)$)|^(?:very|great|good|fun|hard|boring|fine|demanding|stressful"
            rf"|killing|going|to )",
    ),
    row("self", 8, "job", "The user is {x}", rf"{AM}{NOW}(?P<x>retired|unemployed|self-employed|between jobs"
    rf"|freelancing)\b",
         r"\bi(?:'ve| have)? (?:just |recently |finally )?(?P<x>retired)\b(?! to bed)"),
    row(
        "self", 7, "employer", "The user works at {x}",
        rf"\bi {NOW}work (?:part-time |full-time |remotely )?(?:for|at) (?P<x>(?-i:[A-ZÀ-Þ0-9]|an? "
        rf"|the )[^,;:!?()\"]{{1,60}}?)(?: as (?P<j>an? [\w -]{{2,40}}?))?{END}",
        rf"{AM}{NOW}(?:working|employed) (?:for|at|by) (?P<x>(?-i:[A-ZÀ-Þ0-9]|an? "
        rf"|the )[^,;:!?()\"]{{1,60}}?)(?: as (?P<j>an? [\w -]{{2,40}}?))?{END}",
        rf"\bi(?:'ve| have)? {NOW}(?:started(?: working| a new job| a job)? (?:at|with|for)|joined|got (?:a|the"
        rf"|my) (?:new )?job (?:at|with))"
        rf" (?P<x>(?-i:[A-ZÀ-Þ0-9])[^,;:!?()\"]{{1,60}}?)(?: as (?P<j>an? [\w -]{{2,40}}?))?{END}",
        rf"\bi(?:'ve| have)? {NOW}(?:left|quit) [^,;:.!?()\"]{{2,60}}? and (?:i )?(?:have )?{NOW}(?:joined"
        rf"|started (?:working )?"
        rf"(?:at|with|for)|work (?:at|for)) (?P<x>(?-i:[A-ZÀ-Þ0-9])[^,;:!?()\"]{{1,60}}?){END}",
        rf"\bmy (?:new |current )?(?:employer"
        rf"|company) is (?:now )?(?:called )?(?P<x>(?-i:[A-ZÀ-Þ0-9])[^,;:!?()\"]{{1,60}}?){END}",
        rf"\bich arbeite (?:jetzt )?bei {X}", rf"\bje travaille (?:chez|pour) {X}", rf"\btrabajo (?:en|para)"
        rf" (?P<x>(?-i:[A-ZÀ-Þ])[\w .&-]{{1,40}}?){END}",
        never=r"^\d{1,2}(?:[:.]\d\d)?(?: ?(?:am|pm|a\.m|p\.m|o'clock)\b.*)?$|^free$"
        r"|^(?:the (?:moment|same|time|weekends?|night|morning|evening|end|minute)|a (?:loss|time)|night|home)\b",
    ),
    row(
        "self", 5, "study", "The user studies {x}",
        rf"\bi {NOW}study {X}", rf"{AM}{NOW}(?:studying|majoring in|doing a (?:degree|master's|phd"
        rf"|bachelor's) in) {X}",
        never=rf"{POINTING}|^(?:for|at|hard|abroad|a lot|every)\b",
    ),
    row("self", 8, "diet", "The user is {x}", rf"{AM}{NOW}{_DIET}", rf"\bi(?:'ve| have)? {NOW}(?:became|become"
    rf"|went|gone|turned) {_DIET}",
         r"\bich bin (?:jetzt )?(?P<x>vegan|vegetarisch|vegetarier(?:in)?|veganer(?:in)?)\b"),
    row("self", 8, "diet", "The user is no longer {x}", rf"{AM}(?:no longer|not) {_DIET}(?: any ?more)?",
         rf"\bi(?:'ve| have)? (?:stopped|quit|given up) being {_DIET}"),
    row(
        "self", 8, "allergy:{k}", "The user is allergic to {x}", rf"{AM}(?!not |no longer )(?:\w+ )?allergic to {X}",
        r"\bi have (?:an?|this) (?:\w+ )?(?P<x>[\w-]{3,20}) allergy\b", rf"\bich bin allergisch gegen {X}",
        rf"\bje suis allergique (?:à|aux?) (?:la )?{X}",
        rf"\bsoy alérgic[oa] a(?:l| la| los)? {X}",
        never=POINTING,
    ),
    row("self", 8, "allergy:{k}", "The user is not allergic to {x}", rf"{AM}(?:not|no longer) (?:actually"
    rf" )?allergic to {X}", never=POINTING),
    row("self", 7, "is:{k}", "The user is {x}", rf"{AM}{NOW}(?P<x>{STATES})\b"),
    row("self", 6, "marital", "The user is {x}", rf"{AM}{NOW}(?:happily |newly )?(?P<x>married|single|divorced"
    rf"|separated|engaged|widowed)\b(?=\s*(?:[.,;!]|$)|\s+(?:and|but|now|again|for|since|with (?:two|three|a|kids"
    rf"|children|no)|to (?:(?:an? )?(?-i:[A-Z])|my (?:husband|wife|partner))|these|at the moment|so|mother"
    rf"|father|mum|mom"
    rf"|dad)\b)",
         r"\b(?:i|we)(?:'ve| have)? (?:just |recently |finally )?got(?:ten)? (?P<x>married|divorced|engaged)\b",
         r"\bmy (?:wife|husband|partner) and i(?: have|'ve)?(?: just| recently)? (?:got )?(?P<x>separated|divorced)\b"),
    row("self", 5, "speaks:{k}", "The user speaks {x}", rf"\bi {NOW}(?:can )?speak (?:fluent |some |a little "
    rf"|a bit of |basic )?(?P<x>(?-i:[A-Z])[^;:!?()\"]{{2,60}}?){END}",
         never=r"^(?:To|With|For|Up)\b"),
    row("self", 4, "learns:{k}", "The user is learning {x}", rf"{AM}{NOW}(?:learning|taking lessons in"
    rf"|taking up) (?:how )?{X}",
         rf"\bi(?:'ve| have)? {NOW}started (?:learning|taking lessons in|to learn) {X}",
         never=rf"{POINTING}|^(?:from|a lot|about|new things|more|every|how much)\b"),
    row("self", 4, "plays:{k}", "The user plays {x}", rf"\bi {NOW}play (?:the )?(?P<x>[\w -]{{3,30}}?){END}",
         never=rf"{POINTING}|^(?:with|around|along|together|games? with|at|a (?:role|part|big)|on)\b"),
    row("self", 4, "drives", "The user {v}s {x}", rf"\bi {NOW}(?P<v>drive|ride) (?P<x>an? [^,;:!?()\"]{{2,40}}?){END}",
         never=r"\b(?:lot|bit|long)\b"),
    row("self", 5, "my:{p}", "The user's {p} is {x}",
         rf"\bmy (?:new |current )?(?P<p>{OWN})(?:'s| is| was changed to| changed to"
         rf"| are)(?: now| actually| still)? {X}",
         rf"\bmy (?:new |current )?(?P<p>{OWN})(?:'s not| is not| isn't) [^,;:!?()\"]{{2,40}}, (?:it's|it is|but) {X}",
         never=rf"{POINTING}|^(?:so|very|really|not|no longer|too|always|quite|pretty|a bit|over|in (?:a|two"
         rf"|three)|coming up|on (?!\d|the \d|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
         rf"|under|stored|overflowing|failing|shrinking|growing|approaching|wrong|late|full|empty|an? (?:mess|joke|pain"
         rf"|disaster|nightmare|problem|total|real)|broken|dead|slow|open|off|running|being|gone|great|good|tight|probably|still|out)\b"),
    row("self", 6, "my:{p}", "The user's {p} is called {x}",
         rf"\b(?:my|our) (?P<p>{_ONE})(?:'s name)?(?:'s| is)(?: actually| now)?(?: called"
         rf"| named)? (?-i:{NAME})(?=[.,;!]|$| and\b"
         rf"| who\b)",
         rf"\b(?:my|our) (?P<p>{_ONE})(?:'s name)?(?:'s not| is not| isn't)(?: called| named)? [\w'-]{{1,30}},?"
         rf" (?:it's|it is|but) (?-i:{NAME})",
         rf"\b(?:my|our) (?P<p>{_ONE}),? (?-i:{NAME})(?:,| and i\b| who\b)"),
    row("self", 5, "my:{p}:{k}", "The user has a {p} called {x}",
         rf"\b(?:my|our) (?:\w+ )?(?P<p>{_MANY})(?:'s name)?(?:'s| is) (?:actually |now )?(?:called "
         rf"|named )?(?-i:{NAME})(?=[.,;!]|$"
         rf"| and\b"
         rf"| who\b)",
         rf"\b(?:i|we) (?:have|got|adopted|own|'ve got) an? (?:[\w-]+ ){{0,2}}?(?P<p>{_MANY})(?:,)? (?:called "
         rf"|named |whose name is )(?-i:{NAME})",
         rf"\b(?:i|we) (?:have|got|own)\b[^.;:!?]{{0,40}} and an? (?P<p>{_MANY}) (?:called |named )(?-i:{NAME})",
         rf"\b(?:my|our) (?:\w+ )?(?P<p>{_MANY}),? (?-i:{NAME})(?:,| and i\b| is\b| loves?\b| just\b| who\b)"),
    row("self", 5, "has:{k}", "The user has {n} {x}",
         r"\b(?:i|we)(?: have|'ve got| have got| own) (?:got )?(?P<n>an?|one|two|three|four|five|six|no"
         r"|\d{1,2}) (?:(?:adult|young|old|little|small|big|large|lovely|cute|beautiful|grown|grown-up|teenage"
         r"|twin|rescue|new"
         r"|older|younger|black|white|brown|grey|ginger|electric|wonderful|golden|labrador|\w+-year-old) ){0,2}"
         r"(?P<x>dogs?|cats?|kids?|children|child|sons?|daughters?|brothers?|sisters?|siblings?|horses?"
         r"|grandchildren|grandkids|cars?|retrievers?|labradors?|poodles?|beagles?|dachshunds?|german shepherds?"
         r"|border collies?|guinea pigs?|rabbits?|parrots?|tortoises?|motorbikes?|boats?)\b(?=\s*(?:[.,;!]|$)"
         r"|\s+(?:and|but|so|at home|aged|with|now|already|too"
         r"|who live)\b)"),
    row("self", 7, "is:{k}", "The user has {x}",
         rf"\bi(?:'ve got| have| suffer from| live with|'ve| was diagnosed with"
         rf"| have been diagnosed with) (?:{_ILL_HOW} )*"
         rf"(?P<x>{ILLNESS})\b(?=\s*(?:[.,;!]|$)|\s+(?:and|but|so|since|which|as|for|now|too|because|last|this|in"
         rf"|when|at)\b)"),
    row("self", 5, "teaches:{k}", "The user teaches {x}", rf"\bi {NOW}teach {X}",
         never=rf"{POINTING}|^(?:my|people|kids how|how|a lesson|at|in|for|there)\b"),
    row("self", 6, "workplace", "The user works remotely from {x}",
         rf"\bi {NOW}work (?:remotely|from home) (?:from|in) (?P<x>(?-i:[A-ZÀ-Þ])[^,;:!?()\"]{{2,40}}?){END}"),
    row("self", 6, "workplace", "The user works from {x}", rf"\bi {NOW}work (?:remotely )?from (?P<x>home)\b(?! in\b)"),
    row("self", 5, "born", "The user was born in {x}", r"\bi was born in (?P<x>(?:19|20)\d\d)\b"),
    row("self", 6, "my:pronouns", "The user's pronouns are {x}",
         r"\b(?:my pronouns are|i use) (?P<x>(?:he|she|they|xe|ze)/\w{2,6}(?:/\w{2,6})?)\b"),
    row("self", 7, "business", "The user runs {x}",
         r"\bi (?:own|run|have) (?P<x>(?:an?|my own) (?:[\w-]+ ){0,2}?(?:bakery|caf[eé]|restaurant|shop|store|company"
         r"|business|startup|farm|studio|agency|practice|gym|salon|hotel|bookshop|brewery))\b(?=\s*(?:[.,;!]|$)"
         r"|\s+(?:in"
         r"|near|with|and|so|but|that)\b)"),
    row("self", 5, "my:{p}:is", "The user's {p} is {x}",
         rf"\b(?:my|our) (?P<p>{_KIN}) is (?P<x>an? {JOB})(?=\s*(?:[.,;!]|$)|\s+(?:at|for|in|and|so|but|now|by)\b)",
         never=NO_JOB),
    row("preference", 4, "prefer", "The user prefers {x} to {y}",
         rf"\bi(?:'d)? {_VERY}(?:prefer|like) (?P<x>[^,;:!?()\"]{{2,50}}?) (?:over|to|more than|better than"
         rf"|rather than|instead of) (?P<y>[^,;:!?()\"]{{2,50}}?){END}",
         never=rf"{_LIKED}|^to\b"),
    row("preference", 3, "like:{k}", "The user does not like {x}",
         rf"\bi {_VERY}(?:don't|do not|never|no longer) {_VERY}(?:like|enjoy|love|care for) {X}",
         rf"\bi {_VERY}(?:hate|dislike|despise|can't stand|cannot stand|loathe|detest|can't bear) {X}",
         rf"{AM}(?:not|no longer) {_VERY}(?:(?:a|much of a|such a) (?:big |huge )?(?:fan of|lover of)|into|fond of"
         rf"|keen on|crazy about) {X}",
         rf"\bi(?:'ve| have)? (?:stopped|quit) (?:liking|loving|enjoying) {X}",
         rf"\bich (?:hasse|mag keinen?|mag keine) {X}", r"\bich mag (?P<x>[\w -]{3,30}?) (?:gar "
         r"|überhaupt )?nicht\b",
         rf"\b(?:je n'aime pas|je déteste) (?:les? |la |du )?{X}", rf"\b(?:no me gustan?|odio) (?:el |la |los "
         rf"|las )?{X}",
         never=_LIKED),
    row("preference", 3, "like:{k}", "The user likes {x}",
         rf"\b(?<!thing )(?<!things )(?<!what )(?<!that )(?<!people )i {_VERY}(?:like|love|enjoy|adore|prefer) {X}",
         rf"{AM}{_VERY}(?:(?:a|such a) (?:big |huge |massive |real )*(?:fan of|lover of)|into|fond of|keen on"
         rf"|crazy about|passionate about|obsessed with|addicted to) {X}",
         rf"\bi(?:'ve| have) (?:come|grown|started|begun) to (?:like|love|enjoy) {X}", rf"\bi(?:'ve| have) always"
         rf" (?:liked|loved|enjoyed) {X}",
         rf"\bich (?:mag|liebe) (?!keinen?\b){X}", rf"\bj'(?:aime|adore) (?:les? |la |du )?{X}",
         rf"(?<!no )\bme (?:gustan?|encantan?) (?:el |la |los |las )?{X}",
         never=_LIKED),
    row("preference", 5, "eats:{k}", "The user does not {v} {x}", rf"\bi {_VERY}(?:don't|do not|never|no longer"
    rf"|can't|cannot) (?P<v>eat|drink|smoke) {X}",
         rf"\bi(?:'ve| have)? (?:stopped|quit|given up|gave up) (?P<v>eat|drink|smok)ing {X}",
         never=rf"{POINTING}|^(?:before|after|between|at|on|in|until|out|here|there|when|while|because)\b"),
    row("self", 8, "diet", "The user eats {x}",
         rf"\bi(?:'ve| have)? {NOW}(?:eat|started eating|started to eat|gone back to eating|went back to eating)"
         rf" (?P<x>meat|fish|meat and fish|fish and meat|everything)(?: (?:now|again|these days))+(?=\W|$)",
         rf"\bi(?:'ve| have)? {NOW}(?:started eating|started to eat|gone back to eating|went back to eating)"
         rf" (?P<x>meat|fish|meat and fish|fish and meat)\b"),
    row("preference", 4, "eats:{k}", "The user {v}s {x}", rf"\bi {NOW}(?P<v>eat|drink|smoke) {X}(?<=again)",
         never=POINTING),
    row("preference", 4, "uses:{k}", "The user uses {x}",
         rf"\b(?:i|we) {NOW}(?:use|am using|'m using) (?P<x>(?-i:[A-Z])[\w .+#/-]{{1,40}}?)(?: (?:for|as|on|at"
         rf"|to) [^,;:!?()\"]{{2,50}}?)?{END}",
         rf"\bi {_VERY}(?:(?:usually|primarily) )?(?:write|(?:write code|code|program|develop)(?: mostly| mainly"
         rf"| primarily)? in)"
         rf" (?P<x>(?-i:{_CODED})(?:(?:, | and )(?:(?:a bit of|a little|some) )?(?-i:{_CODED})){{0,3}})",
         never=r"^(?:if|for|while|this|that|the|it)\b|^(?:Dr|Mr|Mrs|Ms|Prof|St)$|\b(?:statements?|functions?|loops?|formulas?|class(?:es)?"
         r"|variables?|here)\b"),
    row("preference", 4, "uses:{k}", "The user uses {x} instead of {y}",
         rf"\b(?:i|we)(?:'ve| have)? {NOW}(?:switched|migrated|changed) from (?P<y>[\w .+#/-]{{2,40}}?) to {X}",
         never=POINTING),
)  # fmt: skip
