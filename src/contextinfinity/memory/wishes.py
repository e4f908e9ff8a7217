"""How people say how they want to be answered."""

from __future__ import annotations

from contextinfinity.memory.phrases import X, row

_DO = (
    r"(?=(?:use|answer|reply|respond|write|call|address|include|give|show|format|keep|explain|cite|ask|avoid|add"
    r"|put|start|end|skip"
    r"|translate|speak|mention|assume|check|run|send|suggest|recommend|make|tell|say|be (?:brief|concise|honest"
    r"|direct|formal|polite)|do"
    r"|quote|remind|summari[sz]e|list|convert|mark|sign|spell|stick)\b)"
)
"""What one asks an assistant to do."""
_STYLE = (
    r"(?:emojis?|emoticons|bullet points|bullets|markdown|headings|tables|exclamation marks|em dashes|abbreviations"
    r"|jargon|filler|slang|swear words)"
)
"""What answers are dressed with."""

WISHES = (
    row("wish", 8, "answers:language", "The user wants answers in {x}",
         r"\b(?:always|from now on|in future|in the future|every time|by default)\b[^.!?]{0,40}?\b(?:answer|reply"
         r"|respond|write|speak|talk)(?: to me| me)? in (?P<x>(?-i:[A-Z])[a-z]{3,20})\b",
         r"\b(?:answer|reply|respond|write|speak|talk)(?: to me"
         r"| me)? in (?P<x>(?-i:[A-Z])[a-z]{3,20})\b(?=[^.!?]{0,20}\b(?:from now on|always|in future|by default))",
         r"\byou (?:can|may) (?:answer|reply|respond|write|speak|talk)(?: to me| me)? in (?P<x>(?-i:[A-Z])[a-z]{3,20})"
         r" (?:again|now)\b",
         r"\bi (?:prefer|want|like) (?:your |the )?(?:answers|replies|responses) in (?P<x>(?-i:[A-Z])[a-z]{3,20})\b"),
    row("wish", 8, "answers:length", "The user wants {x} answers",
         r"\b(?:keep|make) (?:your |the |all )*(?:answers|replies|responses|explanations) (?:very "
         r"|really )?(?P<x>short|brief|concise|long|detailed|simple)\b",
         r"\bi (?:prefer|want|like) (?:your |the |my )?(?P<x>short|brief|concise|long|detailed"
         r"|simple)(?:er)? (?:answers|replies|responses|explanations)\b",
         r"\b(?P<x>short|brief|concise|long|detailed|simple)(?:er)? (?:answers|replies|responses|explanations)"
         r" are (?:fine|ok|okay|good|welcome)(?: again| now)",
         r"\byou (?:can|may) (?:now )?(?:give|write|send|make)(?: me)? (?P<x>short|brief|concise|long|detailed"
         r"|simple)(?:er)? (?:answers|replies|responses|explanations)(?: (?:again|now))\b"),
    row("wish", 8, "answers:length", "The user wants {x} answers",
         r"\b(?:always |from now on,? )(?:please )?(?:give|write|send)(?: me)? (?P<x>short|brief|concise|long"
         r"|detailed|simple)(?:er)?"
         r" (?:answers|replies|responses|explanations)\b",
         r"\b(?:give|write|send)(?: me)? (?P<x>short|brief|concise|long|detailed|simple)(?:er)? (?:answers|replies"
         r"|responses|explanations) (?:from now on|in future|again)\b"),
    row("wish", 8, "", "The user does not want answers in {x}",
         r"\b(?:stop (?:answer|reply|respond|writ|speak|talk)ing|(?:don't|do not|no longer) (?:answer|reply"
         r"|respond|write"
         r"|speak|talk))(?: to me| me)? in (?P<x>(?-i:[A-Z])[a-z]{3,20})\b", ends=("answers",)),
    row("wish", 7, "wish:call {k}", "The user does not want to be called {x}",
         r"(?:^|[,;] )(?:please )?(?:don't|do not|never|stop) call(?:ing)? me (?P<x>[\w' -]{2,30}?)(?: again"
         r"| any ?more)?[.!]*$",
         never=r"^(?:back|at|on|now|later|today|tomorrow|again|when|if|out|that|it)\b"),
    row("wish", 8, "answers:units", "The user wants {x} units", r"\b(?:always |please |only "
        r"|from now on,? )+use (?P<x>metric"
    r"|imperial|si)\b", r"\bi (?:use|prefer|think in) (?P<x>metric|imperial)\b"),
    row("wish", 7, "wish:{k}", "The user wants the assistant to always {x}",
         rf"(?:^|[,;] )(?:please |and )?(?:from now on|in future|in the future),? (?:please )?(?:always )?{_DO}{X}",
         rf"(?:^|[,;] )(?:please |and )?always {_DO}{X}"),
    row("wish", 7, "wish:{k}", "The user wants the assistant to never {x}",
         rf"(?:^|[,;] )(?:please |and )?(?:from now on|in future|in the future),? (?:please )?(?:don't|do not"
         rf"|never) {_DO}{X}", rf"(?:^|[,;] )(?:please |and )?never {_DO}{X}",
         rf"(?:^|[,;] )(?:please |and )?(?:don't|do not) (?:ever )?{_DO}(?P<x>[^,;:!?()\"]{{2,90}}?) in (?:your"
         rf"|any|the) (?:replies"
         rf"|answers|responses|messages)\b"),
    row("wish", 7, "wish:{k}", "The user wants the assistant to never {x}",
         rf"(?:^|[,;] )(?:please )?(?:don't|do not|never) (?P<x>use (?:any )?{_STYLE})\b"),
    row("wish", 7, "wish:us {k}", "The user wants no {x}",
         rf"(?:^|[,;] )(?:please )?(?:stop using|no(?: more)?"
         rf"|avoid(?: using)?) (?P<x>{_STYLE})\b(?=\W*(?:please\W*)?$| (?:in your"
         rf"|from now|any ?more)\b)"),
    row("wish", 7, "wish:{k}", "The user allows the assistant to {x}",
         rf"\byou (?:can|may) {_DO}{X}(?<=again)",
         never=r"^(?:give|write|send|make)(?: me)? (?:short|brief|concise|long|detailed|simple)"
         r"|^\w+(?: to me| me)? in (?-i:[A-Z])"),
)  # fmt: skip
