"""What speaks for and against a sentence being worth remembering: one table, read by ``salience``.

A sign is a handful of points and the words of which one has to be there; where words are not enough, phrases say it
more exactly (a line is one or several of them; small letters, straight apostrophes). Words are parted at apostrophes.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from msgspec import Struct

Leaning: TypeAlias = Literal["decision", "constraint", "preference"]


class Sign(Struct, frozen=True):
    """One sign: its points, where it leans, the words of which one is there, and what has to be found as well."""

    points: float
    leans: Leaning | None
    words: frozenset[str]
    phrases: re.Pattern[str] | None


def _sign(points: float, leans: Leaning | None, words: str, phrases: str = "") -> Sign:
    lines = [line.strip() for line in phrases.strip().splitlines()]
    return Sign(points, leans, frozenset(words.split()), re.compile("|".join(lines)) if lines else None)


_ABOUT_US = (
    _sign(
        1,
        None,
        """
        i my mine me we our ours us im ive lets ich mein meine meinem meinen meiner mir mich wir unser unsere uns je j
        mon ma mes moi nous notre nos yo mi mis nuestra nuestro soy estoy tengo tenemos somos vivo puedo podemos
        """,
    ),
    _sign(
        1,
        None,
        """
        mum mom mother dad father wife husband partner girlfriend boyfriend fiancé fiancée son daughter sister brother
        kid kids child children twins baby toddler eldest youngest grandma grandpa gran granny nan grandmother
        grandfather aunt uncle cousin niece nephew parents family flatmate roommate boss manager client customer
        landlord landlady accountant doctor vet lawyer teacher tenant neighbour neighbor cat dog puppy kitten oma opa
        mutter vater frau mann sohn tochter bruder schwester eltern kinder chef chefin vermieter mère père femme mari
        fille fils frère sœur enfants maman papa madre padre mujer marido hijo hija hermano hermana hijos padres
        abuela abuelo jefe jefa
        """,
    ),
    _sign(
        1,
        None,
        """
        team company office house flat apartment project app codebase server backend frontend budget rent mortgage
        wedding trip party flight meeting appointment contract lease insurance salary car school club deadline
        """,
    ),
    _sign(
        1.5,
        None,
        "i we my our im ive",
        r"""
        \b(?:i|we) (?:\w+ly |also |only |just |still )?(?:live|work|run|play|wear|drive)\b
        \b(?:i|we) (?:\w+ly |also |only |just |still )?(?:own|use|speak|study|grew up|come)\b
        \b(?:i|we) (?:\w+ly |also |only |just |still )?(?:weigh|take|earn|ride|pay|eat|drink|read|have|need|want)\b
        \b(?:i|we) (?:\w+ly |also |only |just |still )?(?:teach|sell|rent|collect|share)\b
        \b(?:i|we) (?:\w+ly |also |only |just |still )?(?:sleep|get|got|bought|moved|started)\b
        \b(?:i'?m|i am) (?!just|so|not sure|sure|curious|wondering|thinking|afraid|sorry|glad|happy to|tired)\w
        \b(?:we're|we are) (?!just|so|not sure|sure|curious|wondering|thinking|afraid|sorry|glad|happy to|tired)\w
        \b(?:i'?ve|we've|i have|we have) (?:got|had|been|lived|worked)\b
        \b(?:my|our) (?:\w+ ){0,3}(?:is|are|was|has|have|had|needs?|wants?|lives?|works?|goes|starts?|turns?|turned)\b
        \b(?:my|our) \w+'s\b
        """,
    ),
    _sign(
        1.5,
        None,
        "ich wir mein meine unser unsere je j mon ma mes soy somos tengo tenemos vivo trabajo mi mis",
        r"""
        \bich \w+e\b|\bich bin\b|\bwir \w+en\b|\bwir sind\b
        \b(?:meine?|unsere?) (?:\w+ ){1,3}(?:ist|heißt|hat|sitzt|wohnt|arbeitet|sind|haben)\b
        \bje (?:suis|vis|travaille|m'appelle|porte|joue)\b|\bj'(?:ai|habite)\b
        \b(?:mon|ma|mes) (?:\w+ ){1,3}(?:est|sont|a|ont|s'appelle|vit|vivent|habite)\b
        \b(?:soy|somos|tengo|tenemos|vivo|trabajo)\b
        \bmis? (?:\w+ ){1,3}(?:es|son|está|tiene|tienen|vive|viven|se llama)\b
        """,
    ),
    _sign(2, None, "called named name nickname heißt heisst heiße appelle llama llamo apellido"),
    _sign(
        2,
        None,
        """
        allergic allergy intolerant intolerance diabetic vegan vegetarian pregnant asthma asthmatic coeliac celiac
        wheelchair medication insulin pacemaker disabled deaf blind kosher halal diagnosed allergisch schwanger
        rollstuhl vegetarier veganer allergique intolérant intolérante enceinte végétarien végane diabétique alérgico
        alérgica embarazada vegetariano vegetariana diabético diabética celíaca celíaco
        """,
    ),
    _sign(
        2,
        None,
        "btw fyi nb remember note record mind important way heads forget merk merke vergessen oublie recuerda",
        r"""
        \b(?:btw|fyi|nb|by the way|for the record|(?:keep|bear) (?:\w+ )?in mind|heads up|(?:don't|do not) forget)\b
        \b(?:remember that|note that|merke? dir|nicht vergessen|n'oublie|recuerda)\b|^(?:important|note|remember)\b
        """,
    ),
)
_DECIDED = (
    _sign(
        2.5,
        "decision",
        """
        it booked ordered signed sign bought reserved cancel cancelled canceled ditch ditching drop dropping scrap
        swap switch move moving moves moved replace retire retired rewritten go goes going gonna instead after final
        decided agreed settled chose chosen picked landed plan changed stay stays won forget from starting take put
        hired gets i we let lets will being pick merged pinned switches
        """,
        r"""
        \b\w+ it is\b|\binstead\b|\bafter all\b|\bfinal (?:answer|decision|version|call)\b|\bchanged my mind\b
        \bplan is\b
        \b(?:i|we)(?:'ve|ve| have)? (?:already |just )?(?:booked|ordered|signed|bought)\b
        \b(?:i|we)(?:'ve|ve| have)? (?:already |just )?(?:reserved|cancell?ed|pinned|merged)\b
        \b(?:i|we)(?:'ve|ve| have)? (?:already |just )?(?:hired|picked(?! up)|landed on|went with|chose|moved to)\b
        \b(?:i|we)(?:'ll| will|'m|'re| are| am|m) (?:\w+ly |just |not |going to )?(?:ditch|drop|scrap|swap)
        \b(?:i|we)(?:'ll| will|'m|'re| are| am|m) (?:\w+ly |just |not |going to )?(?:switch|tak|us|go)
        \b(?:i|we)(?:'ll| will|'m) (?:\w+ly |just |not |going to )?(?:mov|replac|retir|cancel|sign|stick|keep)
        \b(?:i|we)(?:'re| are| am|m) (?:\w+ly |just |not |going to )?(?:mov|replac|retir|cancel|sign|stick|keep)
        \b(?:i|we)(?:'ll| will|'m|'re| are| am|m) (?:\w+ly |just |not |going to )?(?:stay|put|fly|pick)
        \b(?:i|we)(?:'ll| will|'m|'re| are| am|m) (?:\w+ly |just |not |going to )?(?:hir|renew|rewrit|start)
        \b(?:i|we)(?:'ll| will|'m|'re| are| am|m) (?:\w+ly |just |not |going to )?(?:leav|quit|buy|rent|stop)
        \b(?:we're|we are|i'm|i am) (?:doing|having|done with)\b|\bgonna \w|\bgoing (?:to|with) the\b
        \bfrom (?:now on|here on|next \w+|today|tomorrow|monday|tuesday|wednesday|thursday|friday)\b
        \bstarting (?:next|from|on|in)\b|\b(?:landed|settled|agreed|decided) (?:on|to|that|for)\b
        \bstays? (?:at|as|on|in|put|with)\b|\b(?:moves?|moved|switches|goes) to \w|\bwill be \w|\bgets the\b
        ^(?:ok(?:ay)? |right |yeah |nah |no |so )*(?:forget|scrap|drop|ditch|go for)\b
        ^(?:ok(?:ay)? |right |yeah |nah |no |so )*(?:go with|let'?s|no more|pick|take|swap)\b
        ^(?:ok(?:ay)? |right |yeah |nah |no |so )*(?:switch|replace|move|rename|delete|remove|add)\b
        \b(?:is|are|be|get|gets|getting|being) (?:rewritten|retired|replaced|dropped)\b
        \b(?:is|are|be|get|gets|getting|being) (?:cancelled|moved|postponed|approved)\b
        """,
    ),
    _sign(
        2.5,
        "decision",
        """
        doch stattdessen finalement final nehmen ziehen machen fahren bleiben wechseln kaufen buchen nehme ziehe mache
        fahre bleibe wechsle kaufe buche gebucht bestellt entschieden ab part prend garde choisit prenons partons
        gardons cogemos quedamos vamos reservado usamos tomamos salimos compramos dejamos
        """,
        r"""
        \b(?:wir|ich) (?:nehmen?|ziehen?|machen?|fahren?|bleiben?|wechseln?|wechsle|kaufen?|buchen?)\b
        \bab (?:jetzt|sofort)\b
        \bhaben? (?:\w+ ){0,4}(?:gebucht|bestellt|entschieden)\b|\bstattdessen\b|\bfinalement\b|\bal final\b
        \bon (?:part|prend|garde|choisit)\b|\b(?:prenons|partons|gardons)\b|\bhe(?:mos)? reservado\b
        \b(?:cogemos|quedamos|usamos|tomamos|salimos|compramos|dejamos|vamos (?:a|con))\b
        """,
    ),
)
_BOUND = (
    _sign(
        2.5,
        "constraint",
        """
        must have has had needs need got gotta allow allowed allows supposed permitted require required requires
        mandatory strict policy forbidden legally limited limit cap capped max maximum minimum tops latest most least
        deadline compliance compatible should wants want expects
        """,
        r"""
        \bmust\b(?!'ve| have)
        \b(?:gotta|mandatory|forbidden|legally|capped|tops|deadline|compliance|strict|policy|compatible)\b
        \b(?:have|has|need|needs|got) to\b|\bneeds? (?:an?|to|\w+ing|two|three)\b|\brequire[sd]?\b|\bsupposed to\b
        \b(?:not|isn't|aren't|doesn't|don't|only) (?:be )?(?:allow(?:ed|s)?|permitted)\b|\blimited to\b
        \b(?:limit|cap|max|maximum|minimum)\b|\bat (?:most|least|the latest)\b
        \b(?:wants?|needs?|expects?) (?:it|them|this)\b
        \bshould (?:never|always|not|only|be|stay)\b
        """,
    ),
    _sign(
        2.5,
        "constraint",
        """
        can cant cannot won wont unable stuck out no nogo no-go off off-limits hands avoid never don dont do nobody
        nothing none not isn aren doesn doesnt does will
        """,
        r"""
        \b(?:can't|cant|cannot|unable to|stuck with|no-go|nogo|hands off|off[ -]limits|out of the question|avoid)\b
        \bis out\b
        ^(?:\w+ ){0,3}(?:do not|don't|dont) (?!idea|problem|worr|matter|way|mind|one|thank|doubt|need)\w
        ^(?:\w+ ){0,3}(?:never|no|nothing|nobody) (?!idea|problem|worr|matter|way|mind|one|thank|doubt|need)\w
        \b(?:nothing|nobody|no one|none) (?:\w+ ){0,4}(?:goes|leaves|gets|should|can|may)\b
        \b(?:nothing|nobody|no one|none) (?:\w+ ){0,4}(?:is|else|with|after|before|outside)\b
        \bno \w+(?: \w+)? (?:after|before|at|on|in|anywhere|please)\b
        \b(?:so|and|but|because) (?:no|nothing|never|not) \w
        \bnot (?:\w+ )?(?:before|after|above|below|over|under|safe|available|around)\b
        \b(?:don't|doesn't|doesnt|dont|do not|does not) (?:eat|drink|drive|fly|touch|want)\b
        \b(?:don't|doesn't|doesnt|dont|do not|does not) (?:work|do|have|allow|use|speak|own)\b
        \b(?:won't|wont|will not) (?!lie|be long|hurt|believe)\w
        """,
    ),
    _sign(
        2.5,
        "constraint",
        """
        darf dürfen muss müssen kein keine keinen nicht nie niemals höchstens spätestens nur vertrage doit doivent
        faut jamais pas interdit debe deben nunca prohibido no ne
        """,
        r"""
        \b(?:darf|dürfen|muss|müssen|niemals|höchstens|spätestens|vertrage)\b|\b(?:keine?n?|nie|nur) \w|\bnicht mehr\b
        \b(?:doit|doivent|il faut|jamais|interdit)\b|\bpas de? \w|\b(?:je|on|nous|il) ne \w
        \b(?:debe|deben|nunca|prohibido)\b|\bno (?:puedo|pueden|podemos|puede|hay|quiero|como|bebo)\b
        """,
    ),
    _sign(
        1,
        "constraint",
        """
        until unless only except under below above within between before by after otherwise bis nur außer nach vor
        jusqu sauf avant après hasta salvo antes después
        """,
    ),
)
_LIKED = (
    _sign(
        2.5,
        "preference",
        """
        prefer prefers preferred like likes love loves adore adores hate hates enjoy enjoys dislike dislikes rather
        sooner favourite favorite fan into keen picky fussy suits suit bores best mostly mainly always usually thing
        stand deal fine more early
        """,
        r"""
        \b\w+ (?:prefers?|loves?|adores?) (?!how|it when|that you|this|to (?:know|see|hear))\w
        \b\w+ (?:hates?|enjoys?|dislikes?) (?!how|it when|that you|this|to (?:know|see|hear))\w
        \b(?:i|we) (?:really |don't |do not )?like (?!how|to (?:know|see|hear|ask)|that\b)\w|\b\w+ likes \w
        \b(?:rather|sooner|favou?rite|picky|fussy)\b|\b(?:big|huge|a) fan\b|\b(?:really|very|so|quite) into\b
        \bkeen on\b
        \bsuits? (?:me|us|my|our|him|her)\b|\bbores? me\b|\b(?:i'?m|we're) (?:early|night|more)\b|\bmy thing\b
        \bbest (?:in|with|for|when)\b|\b\w+s? (?:mostly|mainly|best) (?!because)\w|\bcan'?t (?:stand|deal)\b
        \b(?:i|we) (?:always|usually|mostly) (?!wonder|thought|forget|wanted|been)\w
        \bfine (?:for|with|by) (?:me|us)\b
        """,
    ),
    _sign(
        2,
        "preference",
        """
        please pls plz answer reply replies answers explain keep give use write call format walk tone style spelling
        show stick text whenever where respond address tell your
        """,
        r"""
        \b(?:pls|plz|tone|spelling)\b|\b(?:whenever|where) possible\b
        ^(?:(?!i |we |you |they )\w+ ){0,2}(?:answer|reply|respond|format)\b(?! (?:this|that))
        ^(?:(?!i |we |you |they )\w+ ){0,2}(?:stick to|use|keep|call me|address me)\b(?! (?:this|that))
        \b(?:keep|give|walk|show) (?:it|me|them|things|everything|your|all)\b.{1,60}\b(?:short|brief)\b
        \b(?:explain|tell|answer|text|write) (?:it|me|them|things|everything|your|all)\b.{1,60}\b(?:short|brief)\b
        \b(?:give|walk|show) (?:it|me|them|things|everything|all)\b.{1,60}\b(?:first|step|rather|when)\b
        \b(?:explain|tell|answer|write) (?:it|me|them|things|everything|all)\b.{1,60}\b(?:first|step|rather|when)\b
        \b(?:give|explain|tell|write) (?:me |things |everything )?.{1,60}\b(?:not|always|never)\b
        \b(?:give|explain|tell|write) (?:me |things |everything )?.{1,60}\b(?:simple|simply|with examples)\b
        \byour (?:answers?|repl(?:y|ies)|responses?|code|explanations?|tone)\b
        \bplease (?:always|never|use|keep|no|don'?t|avoid|answer|write|stick|stop|call|skip)\b
        """,
    ),
    _sign(
        2.5,
        "preference",
        """
        mag mögen liebt hasse lieber bitte bevorzuge duze aime aimons adore déteste préfère tutoie vouvoie stp svp
        gusta gustan encanta encantan odio prefiero prefiere favor
        """,
        r"""
        \b(?:mag|mögen|liebt|hasse|lieber|bevorzuge|duze?|tutoie|vouvoie|stp|svp|aimons|adore|déteste|préfère|bitte)\b
        \b[jn]'aime\b|\b(?:gustan?|encantan?|odio|prefier[oe]|por favor)\b
        """,
    ),
)
_STATED = (
    _sign(0.5, None, "so because cause since otherwise weil deshalb parce donc car porque"),
    _sign(1, None, "actually correction meant eigentlich"),
    _sign(
        1,
        None,
        """
        is are was s has have sits lives runs costs weighs starts ends goes takes gets lands leaves fits expires due
        went came ist liegt sitzt kostet dauert est a es está son cuesta
        """,
    ),
)
_AGAINST = (
    _sign(-3, None, "thanks thank haha lol hehe wow hello hi hey goodbye bye cheers sounds awful danke merci gracias"),
    _sign(
        -2.5,
        None,
        """
        interesting funny hilarious lovely nice beautiful weird strange curious sense point weather rained raining
        slept traffic tired luck joke kidding amazing cute confused quite boring opinion sorry
        """,
    ),
    _sign(
        -2.5,
        None,
        """
        maybe perhaps wonder wondering wondered suppose imagine guess apparently probably might could would thinking
        sure if what vielleicht peut quizás
        """,
        r"""
        \b(?:maybe|perhaps|wonder(?:ing)?|suppose|imagine|i guess|apparently|probably|might|thinking (?:about|of))\b
        \b(?:maybe|perhaps|wonder(?:ed)?|suppose|imagine|i guess|apparently|probably|might|thinking (?:about|of))\b
        \b(?:not sure|vielleicht|peut-être|quizás)\b|^(?:what if|could|would)\b|\bwould (?:be|have|it)\b
        """,
    ),
    _sign(
        -4,
        None,
        "see understand know get remember think believe sure following",
        r"""
        \b(?:don't|dont|do not|can't|cannot|didn't|not) (?:\w+ )?(?:see|understand|know|get|remember|think|believe)\b
        \bnot (?:\w+ )?(?:sure|following)\b
        """,
    ),
    _sign(-4, None, "if wenn falls si", r"^(?:if|wenn|falls|si) (?:i|we|you|ich|wir|je|nous|yo)\b"),
    _sign(
        -5,
        None,
        """
        tell explain describe show help could can would give write make draft translate summarise summarize compare
        list let like
        """,
        r"""
        ^(?:please |ok(?:ay)? |and |now )*(?:tell|explain|describe|show) (?:me )?(?:an?|the)\b
        ^(?:please |ok(?:ay)? |and |now )*(?:help|translate|summari[sz]e|compare|list) (?:me )?(?:an?|the)\b
        ^(?:please |ok(?:ay)? |and |now )*(?:tell|explain|describe) (?:me |us )?(?:how|why|what|about|more)\b
        ^(?:please |ok(?:ay)? |and |now )*(?:show|help|translate) (?:me |us )?(?:how|why|what|about|more)\b
        ^(?:please |ok(?:ay)? |and |now )*(?:write|make|draft|give) (?:me |us )?(?:an?|the|some|more|another)\b
        ^(?:could|can|would) you\b|^let me\b|\blike to (?:know|see|hear|learn|understand|ask)\b
        """,
    ),
    _sign(
        -2,
        None,
        "how why what who when where which does did wie warum was comment pourquoi cómo qué",
        r"^(?:how|why|what|who|when|where|which|does|did|wie|warum|was|comment|pourquoi|cómo|qué) ",
    ),
    _sign(
        -3,
        None,
        """
        they someone somebody people king queen story stories film films movie book novel episode article documentary
        radio character others everybody romans he she colleague
        """,
        r"""
        \b(?:they|someone|somebody|people|others|everybody)\b(?! (?:coming|said yes|invited))
        \b(?:story|stories|films?|movie|novel|episode|article|documentary|radio|character|king|queen|romans)\b
        \b(?:he|she) (?:said|had|was|walked|went|told|took|must|has to|kept|keeps|thinks)\b|\bcolleague thinks\b
        """,
    ),
    _sign(
        -2.5,
        None,
        "picked saw watched walked read reading tried told heard looked talked talking took keeps enjoyed",
        r"""
        \b(?:i|we) (?:\w+ )?(?:picked up|saw|watched|walked|tried|heard|talked|looked|enjoyed)\b|\bwas reading\b
        \bi read (?:an?|about|that)\b|\btook (?:me|ages|us)\b|\btold (?:me|us) about\b|\bkeeps \w+ing\b
        """,
    ),
    _sign(
        -3.5,
        None,
        "must have has won always never honest mind love be",
        r"""
        \bmust(?:'ve| have| say| admit| confess)\b|\bmust be (?:an? )?(?!\w+ed\b)\w+$
        \bto be (?:honest|kidding|fair)\b
        \bbe kidding\b|\bwon't lie\b|\bhave to say\b|\bnever mind\b|\blove how\b
        \b(?:always|never) (?:wondered|understood|thought|liked|knew|forget)\b
        """,
    ),
)
SIGNS: tuple[Sign, ...] = (*_ABOUT_US, *_DECIDED, *_BOUND, *_LIKED, *_STATED, *_AGAINST)
"""Whom a sentence is about, what it decides, forbids or likes, that it states something, and what speaks against it."""
