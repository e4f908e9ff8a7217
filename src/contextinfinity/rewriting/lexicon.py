"""The words by which references are known: pronouns, words for kinds of things, first names, places.

Closed lists, English first. German, French and Spanish stand in the lists of words that are no names, so that a
sentence in them is not taken for a row of names.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["person", "organisation", "place", "work", "thing", "file", "function", "number", "date"]
Gender: TypeAlias = Literal["m", "f", ""]


def listed(words: str) -> frozenset[str]:
    """Give the words of a row of words."""
    return frozenset(words.split())


# --- Pronouns ---------------------------------------------------------------------------------------

Pronoun: TypeAlias = Literal["he", "she", "they", "it"]

CLASSES: dict[str, Pronoun] = {
    **dict.fromkeys(listed("he him his"), "he"),
    **dict.fromkeys(listed("she her hers"), "she"),
    **dict.fromkeys(listed("they them their theirs"), "they"),
    **dict.fromkeys(listed("it its"), "it"),
}
OWNING = listed("his hers their theirs its")

FOREIGN: dict[str, Pronoun | None] = {
    **dict.fromkeys(listed("er ihn ihm sein seine seinen seinem seiner seines il lui él"), "he"),
    **dict.fromkeys(listed("elle ella"), "she"),
    **dict.fromkeys(listed("ils elles ellos ellas leur leurs"), "they"),
    **dict.fromkeys(listed("sie ihr ihre ihren ihrem ihrer son sa ses su sus"), None),
}
"""Pronouns of German, French and Spanish; those that may mean anybody stand for what is spoken of."""

FOREIGN_THERE = listed("dort dorthin là-bas allí allá")

SLIPS: dict[str, Pronoun] = {"thier": "they", "ther": "they"}
"""Misspelt often enough to be known."""

ORDINALS: dict[str, int] = {"first": 0, "second": 1, "third": 2, "fourth": 3, "fifth": 4, "1st": 0, "2nd": 1, "3rd": 2}

# --- Words for kinds of things ----------------------------------------------------------------------

NOUNS: dict[str, Kind] = {
    **dict.fromkeys(
        listed(
            """
            man guy woman girl boy lady person actor actress singer musician artist author writer poet president
            minister king queen player coach scientist director producer founder ceo boss manager doctor
            professor politician composer painter philosopher general emperor husband wife son daughter brother
            sister father mother inventor engineer developer designer lawyer teacher
            """
        ),
        "person",
    ),
    **dict.fromkeys(
        listed(
            """
            band group team company firm organisation organization party club university college school agency
            label duo trio quartet orchestra corporation startup bank crew cast staff tribe bands teams
            companies institute government ministry airline brand manufacturer vendor studio
            """
        ),
        "organisation",
    ),
    **dict.fromkeys(
        listed(
            """
            city country town village place state island region river mountain capital continent province county
            district neighbourhood neighborhood airport hotel restaurant cities countries
            """
        ),
        "place",
    ),
    **dict.fromkeys(
        listed(
            """
            album song film movie book novel show series single record episode play musical opera game poem
            painting work paper essay documentary magazine tour ep track video program programme story comic
            symphony sequel soundtrack albums songs films movies books
            """
        ),
        "work",
    ),
    **dict.fromkeys(listed("file script module document notebook config spreadsheet"), "file"),
    **dict.fromkeys(listed("function method class procedure endpoint command variable query"), "function"),
    **dict.fromkeys(listed("year date day month week season time period era"), "date"),
    **dict.fromkeys(listed("number amount figure price cost total sum"), "number"),
}

WORKING = listed(
    """
    wrote writes read reading watch watched directed composed published released reread rewatched painted
    """
)
"""Verbs behind which a name is that of a work."""

ALIKE: tuple[frozenset[str], ...] = (
    listed("film movie feature documentary"),
    listed("show series program programme sitcom"),
    listed("band group duo trio quartet"),
    listed("company firm corporation startup business"),
    listed("song single track hit"),
    listed("book novel"),
    listed("record album ep"),
    listed("team club squad"),
    listed("school college university"),
    listed("city town"),
)
"""Words of which either may be said for the same thing."""

GROUPS = listed(
    """
    band group team company corporation inc ltd gmbh corp llc university college institute party club fc united
    orchestra choir association society league union agency ministry department records entertainment studios
    brothers sisters boys girls kids dolls foxes bank airlines motors foundation committee council army navy
    people tribe nation duo trio quartet ensemble
    """
)
"""Words in a name that make it a group or an organisation."""

SITES = listed(
    """
    city county street avenue road river lake mount mountain island islands bay beach valley park square station
    airport hospital prison castle bridge cathedral church tower sea ocean desert hotel inn hostel museum palace
    restaurant café
    """
)
"""Words in a name that make it a place."""

PLACES = listed(
    """
    aarhus accra adelaide afghanistan africa alabama alaska albania algeria america amsterdam angola antwerp
    argentina arizona arkansas armenia asia athens atlanta auckland australia austria azerbaijan baku
    baltimore bangalore bangkok bangladesh barcelona basel bavaria beijing beirut belarus belgium belgrade
    bergen berlin bern berne bilbao bolivia bologna bonn bordeaux bosnia boston brazil bremen brisbane
    britain brooklyn bruges brussels bucharest budapest bulgaria cairo calgary california cambodia cambridge
    cameroon canada casablanca chennai chicago chile china cleveland cologne colombia colorado congo
    connecticut copenhagen corsica crete croatia cuba cyprus dallas delaware delhi denmark denver detroit
    doha dortmund dresden dubai dublin düsseldorf ecuador edinburgh egypt england estonia ethiopia europe
    finland florida france frankfurt freiburg gdansk geneva genoa georgia germany ghana ghent glasgow
    gothenburg granada graz greece guatemala haiti hamburg hannover hanoi hawaii heidelberg helsinki
    hollywood honduras houston hungary hyderabad ibiza iceland idaho illinois india indiana indonesia
    innsbruck iowa iran iraq ireland israel istanbul italy jakarta jamaica japan jerusalem johannesburg
    jordan kansas kazakhstan kentucky kenya kolkata korea kosovo krakow kyiv kyoto köln lagos laos latvia
    lausanne lebanon leipzig libya lille lisbon lissabon lithuania liverpool london louisiana luxembourg
    lyon madrid maine malaga malaysia mallorca malmö malta manchester manhattan manila marrakesh marseille
    maryland massachusetts melbourne memphis menorca mexico miami michigan milan minneapolis minnesota minsk
    mississippi missouri moldova mongolia montana montenegro montreal morocco moscow mumbai munich myanmar
    münchen nagoya nairobi nantes naples nashville nebraska nepal netherlands nevada nicaragua nigeria
    normandy norway nuremberg ohio oklahoma oregon orlando osaka oslo ottawa oxford pakistan palermo panama
    paraguay paris pennsylvania perth peru philadelphia philippines pittsburgh poland portland porto
    portugal prague pretoria quebec riga riyadh romania rome rotterdam russia rwanda sacramento salzburg
    sapporo sardinia scotland seattle senegal seoul serbia seville shanghai shenzhen sicily singapore
    slovakia slovenia somalia spain stockholm strasbourg stuttgart sudan sweden switzerland sydney syria
    taipei taiwan tallinn tampa tanzania tbilisi tennessee texas thailand tokyo toronto toulouse tunis
    tunisia turin turkey tuscany uganda ukraine uruguay utah uzbekistan valencia vancouver venezuela venice
    vermont vienna vietnam vilnius virginia wales warsaw washington wien wisconsin wyoming zagreb zambia
    zimbabwe zurich
    """
)

TWO_WORD_PLACES = listed(
    """
    new_york los_angeles san_francisco san_diego las_vegas new_jersey new_orleans new_mexico new_zealand
    new_delhi hong_kong united_states united_kingdom south_africa south_america north_america north_korea
    south_korea sri_lanka saudi_arabia costa_rica puerto_rico buenos_aires rio_de_janeiro são_paulo cape_town
    tel_aviv st_petersburg saint_petersburg czech_republic soviet_union north_carolina south_carolina
    west_virginia rhode_island
    """
)
"""With a line for each blank."""

# --- People -----------------------------------------------------------------------------------------

TITLES: dict[str, Gender] = {
    **dict.fromkeys(listed("mr mister sir lord king prince duke father brother uncle herr monsieur señor"), "m"),
    **dict.fromkeys(
        listed(
            """
            mrs ms miss madam lady queen princess duchess sister aunt frau madame mademoiselle señora dame
            """
        ),
        "f",
    ),
    **dict.fromkeys(listed("dr prof professor president senator judge captain general pope saint st"), ""),
}

MEN = listed(
    """
    aaron adam adrian ahmed alan albert alejandro alex alexander alfred ali allen andreas andrew andy anthony
    antonio arnold arthur barack ben benjamin bernard bill billy bob bobby boris brad brandon brian bruce bruno
    carl carlos charles charlie chris christian christopher claude colin craig dale dan daniel dave david dennis
    diego dmitri don donald doug douglas duncan dwight earl ed eddie edgar edward edwin elon emmanuel eric
    ernest ethan eugene felix fernando francis francisco frank franz fred frederick friedrich gary george gerald
    gilbert giovanni gordon graham greg guy hans harold harry heinrich henry herbert howard hugh hugo ian isaac
    ivan jack jacob jacques jake james jamie jan jared jason jay jean jeff jeffrey jeremy jerry jim jimmy
    joachim joe joel johann john johnny jon jonathan jorge jose joseph joshua josé juan jules julian justin karl
    karlheinz keith ken kenneth kevin klaus kurt kyle lance larry lars laurence lawrence lee leo leonard lewis
    liam lou louis ludwig luis luke marc marco mario mark markus martin matt matthew max michael michel miguel
    mike mohammed morgan muhammad napoleon nathan neil nelson nicholas nick nicolas niels noah norman oliver
    olaf oscar otto pablo patrick paul pedro pete peter phil philip pierre rahul ralph ray raymond rené richard
    rick rob robert roger roland ron ronald rudolf russell ryan salvador sam samuel scott sean sergei sergey
    sergio sigmund simon stanley stefan stephen steve steven stuart ted terry theodore thomas tim timothy tobias
    todd tom tony travis trevor vicente victor vincent vladimir walter warren wayne werner wilhelm will william
    winston wolfgang xavier zachary lukas leon finn elias matteo lorenzo raj arjun amir omar hassan yusuf hiroshi
    kenji jürgen günther uwe dieter horst jens sven björn henrik rasmus anders javier rafael raúl françois
    guillaume antoine étienne keanu
    """
)
WOMEN = listed(
    """
    abby abigail ada adele agatha agnes aisha alexandra alice alicia allison amanda amelia amy ana andrea angela
    anita ann anna anne annie april ashley audrey ava barbara beatrice betty beyoncé brenda britney camila carla
    carmen carol caroline catherine cecilia charlotte chelsea cher chloe christina christine clara claudia
    courtney cynthia dana deborah debra diana diane donna dorothy edith eleanor elena elisabeth elizabeth ella
    ellen emily emma erica erika esther eva evelyn fatima fiona florence frances frida gabriela georgia gertrude
    gina gloria grace greta hannah harriet heather heidi helen helena hillary ingrid irene isabel isabella ivy
    jane janet janis jennifer jessica joan joanna jodie josephine joyce judith judy julia julie karen kate
    katherine kathleen katie katy kelly kim kirsten lady laura lauren lena lily linda lisa liz louise lucia lucy
    madonna maggie mandy margaret maria marie marilyn marlene martha mary maya megan melania melissa michelle
    mila miranda monica nancy naomi natalie natasha nicole nina nora olga olivia oprah pamela patricia patti
    paula penelope petra phoebe rachel rebecca renate rita rosa rose ruth sabine sally samantha sandra sara
    sarah serena sharon sheila shirley simone sofia sonia sophia sophie stella stephanie susan suzanne sylvia
    tamar tanya tara taylor teena teresa theresa tina ursula valerie vanessa vera victoria virginia wallis wendy
    whitney winnie yoko yvonne zoe mia leah lea zara layla leila priya anjali yuki mei ayesha karin birgit katja
    anja silke ines pilar giulia chiara francesca amélie camille hermione penélope
    """
)

KIN: dict[str, Gender] = {
    **dict.fromkeys(listed("husband father dad brother son boyfriend uncle grandfather grandpa nephew"), "m"),
    **dict.fromkeys(listed("wife mother mom mum sister daughter girlfriend aunt grandmother grandma niece"), "f"),
    **dict.fromkeys(
        listed("friend boss colleague manager teacher neighbour neighbor doctor landlord cousin partner baby client"),
        "",
    ),
}
"""Words for people one has."""

EITHER = listed(
    """
    alex andrea ashley casey charlie chris courtney dana francis jamie jan jay jean jodie jordan kelly kim lee
    morgan nicola pat robin sam taylor terry
    """
)
"""First names of men and of women."""

# --- Words that are no names, and words that carry nothing ------------------------------------------

NO_NAMES = listed(
    """
    i i'm i'd i've i'll a an the this that these those my our your his her hers its their he she it they we you
    me him them us and but or nor so if when while for in on at to from with by as of off into onto about after
    before during since because although though however despite unlike under over between among through without
    within against is are was were am be been being do does did done have has had can could should would will
    shall may might must what who whom whose which why how where whether there here then now also not no yes ok
    okay well please indeed understood congratulations options things true both nice fine excellent wonderful
    interesting correct exactly absolutely certainly noted hi hello hey dear thanks thank sure great good sorry
    maybe perhaps actually each every all any some most many few several other others another such only just
    even still yet again once first second third finally later next meanwhile instead together according based
    overall additionally moreover furthermore therefore thus hence tell give show explain describe compare list
    name write make find let let's isn't aren't don't doesn't didn't can't won't wasn't weren't couldn't
    shouldn't wouldn't one two three four five six seven eight nine ten like upon until unless prior following
    anything something nothing everything someone anyone everyone people ask call email contact invite remind
    send visit buy get put take use check fix set start stop try keep help relate discuss consider summarize
    summarise suggest provide recommend say said talk speak add open read run today yesterday tomorrow early
    late biography background career history legacy life style influence der die das den dem des ein eine einen
    und aber wenn mit für von zu auf im bitte ich du wir sie es er ist sind war waren wer wie wo warum wann hat
    haben kann nicht auch sein seine ihr ihre le la les un une et mais avec pour il elle ils elles est sont qui
    que quoi où quand comment pourquoi son sa ses leur je tu nous vous ce cette el los las una y pero con para
    él ella ellos ellas quién qué dónde cuándo cómo por su sus yo
    """
)
"""Words whose capital means no more than that a sentence begins."""

ENGLISH = listed(
    """
    the and is are was were what who when where why how did does do his her their they he she it this that there
    of in to with about any other have has had
    """
)
NOT_ENGLISH = listed(
    """
    der das den dem ein eine einen und ist sind war waren wer wie wo warum wann hat haben kann nicht auch mit
    von zu für wurde seine seinen ihre er sie ihr sein welche welcher gibt es wird le la les un une et est sont
    qui quoi où quand comment pourquoi il elle ils elles avec pour ses sa des du quel quelle el los las una y
    pero quién qué dónde cuándo cómo por su sus él ella ellos fue son está cuál era tiene
    """
)
"""Words that tell German, French and Spanish from English."""

SMALL_TALK = listed(
    """
    thanks thank you ok okay yes no yeah yep nope please great cool nice hello hi hey bye good morning evening
    night a all the that this sure lot much so very perfect got it awesome wow lol right fine well done continue
    go on again shorter longer stop
    """
)

EMPTY_ANSWERS = frozenset(
    (
        "i don't know",
        "i don’t know",
        "i do not know",
        "i'm not sure",
        "unknown",
        "yes",
        "no",
        "sorry",
        "not known",
        "n/a",
    )
)
"""Answers that say nothing one could point at."""

GLUE = listed("besides or and the my our in at on to")
"""All the words that the offline rewriter adds of its own."""

LINKING = GLUE | listed(
    """
    than between against among toward towards whose whom per via upon within during until since which that
    regarding concerning including instead
    """
)
"""Words that only join others; a model may add them, and those that say nothing anyway."""
