"""Routes of the web page: its files, logging in, and markdown.

The files are public and contain no user data; the page reads and writes through the routes that all clients use. A
browser that logged in sends its token as a cookie that no script can read (``auth.COOKIE``).

Markdown is rendered to sanitised HTML. Any text, hostile or not, becomes HTML with a fixed list of tags and attributes,
without scripts, styles, event handlers, images or ids; links lead to http, https or mailto only and open without a
referrer. An image becomes a link, because loading it would tell its host that the text was read. A bare http or https
address becomes a link. Code is highlighted by class names.

The work is bounded: a text above ``MAX_CHARS``, or with a paragraph above ``MAX_BLOCK_CHARS``, is shown as it is.

Code is highlighted in linear time, whatever it holds. One regular expression per comment style finds comments, strings,
numbers and words; the words that are keywords of common languages are marked. Pygments knows languages better, but
several of its lexers take quadratic time, inside one regular expression that holds the interpreter lock: 20,000 hostile
characters stop the whole server for 30 seconds. Here every alternative consumes what it looked at, so no character is
looked at twice.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

from fastapi import APIRouter, Depends, Request
from msgspec import Struct
from starlette.responses import Response

from contextinfinity.errors import NotFound, TokenNeeded, TooLarge
from contextinfinity.server.app_state import app_state_of
from contextinfinity.server.auth import COOKIE, ActingWith, Asking, acting_with
from contextinfinity.server.bodies import WITH_BODY, Login, RenderedTexts, RenderRequest, answer, body_of, gives, takes

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.renderer import RendererHTML
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


HASH = _words("bash conf dockerfile ini makefile perl php powershell py python r rb ruby sh shell toml yaml yml zsh")
SLASHES = _words(
    "c c# c++ cpp cs csharp css go java javascript js json jsx kotlin php rs rust scala swift ts tsx typescript zig"
)
DASHES = _words("haskell lua sql")
MARKUP = _words("html svg xml")
"""The languages by how their comments begin."""

KEYWORDS = _words(
    "and as assert async await begin bool boolean break case catch char class const continue create def default"
    " defer del delete do double done echo elif else elsif end enum esac except export extends extern false fi final"
    " finally float fn for foreach from func function go goto group guard if impl implements import in insert"
    " int interface internal into is join lambda let limit local long loop match mod module mut namespace new nil none"
    " not null of on or order override package pass private protected pub public raise range require return select self"
    " set short sizeof static string struct super switch table template then this throw throws trait true try type"
    " typedef typeof union unless unsafe until update use using val values var virtual void volatile when where while"
    " with yield"
)

_REST = (
    r"""(?P<s>"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|`(?:\\.|[^`\\])*`?)"""
    r"""|(?P<m>\b\d[\w.]*)|(?P<w>[^\W\d]\w*)"""
)
_COMMENTS = {
    "hash": r"#[^\n]*",
    "slashes": r"//[^\n]*|/\*(?:[^*]|\*(?!/))*(?:\*/)?",
    "dashes": r"--[^\n]*",
    "markup": r"<!--(?:[^-]|-(?!->))*(?:-->)?",
}


_STYLES = (("hash", HASH), ("slashes", SLASHES), ("dashes", DASHES), ("markup", MARKUP))


def highlight(code: str, language: str) -> str:
    """Return escaped code with ``<span class>`` around comments (c), strings (s), numbers (m) and keywords (k).

    An unknown language gives an empty string.
    """
    styles = tuple(style for style, known in _STYLES if language.lower() in known)
    if not styles:
        return ""
    made, done = [], 0
    for found in _pattern(styles).finditer(code):
        made.append(escape(code[done : found.start()]))
        made.append(_marked(found))
        done = found.end()
    return "".join(made) + escape(code[done:])


@cache
def _pattern(styles: tuple[str, ...]) -> re.Pattern[str]:
    comments = "|".join(_COMMENTS[style] for style in styles)
    return re.compile(f"(?P<c>{comments})|{_REST}")


def _marked(found: re.Match[str]) -> str:
    kind, text = found.lastgroup, found[0]
    if kind == "w":
        kind = "k" if text.lower() in KEYWORDS else None
    return escape(text) if kind is None else f'<span class="{kind}">{escape(text)}</span>'


MAX_CHARS = 100_000
MAX_BLOCK_CHARS = 20_000
"""Inline parsing of one paragraph takes quadratic time for some inputs."""

TAGS = (
    *("a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre"),
    *("s", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"),
)
ATTRIBUTES = {
    "a": {"href", "title"},
    "ol": {"start"},
    **{tag: {"class"} for tag in ("code", "li", "span")},
    **{tag: {"align"} for tag in ("td", "th")},
}
SCHEMES = frozenset({"http", "https", "mailto"})
BOXES = {"[ ] ": "☐ ", "[x] ": "☑ ", "[X] ": "☑ "}
"""The start of a task in a list, and the box that is shown."""
ADDRESS = re.compile(r"\bhttps?://[^\s<>\"'`]+")
"""A bare address, with the punctuation that may follow it."""


def render(text: str) -> str:
    """Return a text as safe HTML; blank text is an empty string."""
    import nh3

    text = text.encode("utf-8", "replace").decode("utf-8")  # a JSON body may hold half a surrogate pair
    if len(text) > MAX_CHARS or any(len(block) > MAX_BLOCK_CHARS for block in text.split("\n\n")):
        return f"<pre>{escape(text)}</pre>"
    made = _parser().render(text)
    return nh3.clean(
        made,
        tags=set(TAGS),
        attributes={tag: set(names) for tag, names in ATTRIBUTES.items()},
        url_schemes=set(SCHEMES),
        url_relative="deny",
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "highlight": _highlight, "maxNesting": 20})
    parser.enable(["table", "strikethrough"])
    parser.add_render_rule("image", _image)
    parser.core.ruler.push("bare_addresses", _link_addresses)
    parser.core.ruler.push("cells_and_tasks", _mark_cells_and_tasks)
    return parser


def _mark_cells_and_tasks(state: StateCore) -> None:
    """Give the cells of a table their alignment by an attribute, because styles are removed, and tasks their boxes."""
    item: Token | None = None
    for token in state.tokens:
        if (style := token.attrs.pop("style", None)) is not None:
            token.attrSet("align", str(style).removeprefix("text-align:"))
        if item is not None and token.type == "inline" and token.children:
            first = token.children[0]
            if (box := BOXES.get(first.content[:4])) is not None:
                first.content = box + first.content[4:]
                item.attrSet("class", "task")
        if token.type != "paragraph_open":
            item = token if token.type == "list_item_open" else None


def _link_addresses(state: StateCore) -> None:
    """Turn bare addresses in text into links; text inside links and code stays."""
    for block in state.tokens:
        if block.children and "://" in block.content:
            made: list[Token] = []
            depth = 0
            for token in block.children:
                depth += {"link_open": 1, "link_close": -1}.get(token.type, 0)
                made += _split_at_addresses(token) if token.type == "text" and not depth else [token]
            block.children = made


def _split_at_addresses(token: Token) -> list[Token]:
    from markdown_it.token import Token

    made: list[Token] = []
    end = 0
    for found in ADDRESS.finditer(token.content):
        address = _without_punctuation(found.group())
        made += [
            Token("text", "", 0, content=token.content[end : found.start()]),
            Token("link_open", "a", 1, attrs={"href": address}),
            Token("text", "", 0, content=address),
            Token("link_close", "a", -1),
        ]
        end = found.start() + len(address)
    return [*made, Token("text", "", 0, content=token.content[end:])]


def _without_punctuation(address: str) -> str:
    """Cut off what ends the sentence, and a closing bracket that was opened before the address."""
    address = address.rstrip(".,;:!?*_~|")
    while address.endswith((")", "]")) and "(" not in address and "[" not in address:
        address = address[:-1].rstrip(".,;:!?")
    return address


def _image(self: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """Render an image as a link to it."""
    token = tokens[index]
    label = self.renderInlineAsText(token.children, options, env) or "image"
    return f'<a href="{escape(str(token.attrGet("src") or ""))}">{escape(label)} ↗</a>'


def _highlight(code: str, language: str, attributes: str) -> str:
    return highlight(code, language)


routes = APIRouter(tags=["web page"], default_response_class=Response)

TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types cix-server-html"
)
NO_CACHE = {"cache-control": "no-cache"}
FOR_EVER = {"cache-control": "public, max-age=31536000, immutable"}
HEADERS = {
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
}
COOKIE_SECONDS = 30 * 24 * 3600


class LoggedIn(Struct, frozen=True, kw_only=True):
    """The user that a browser acts for. ``has_token``: the server needs tokens, and this browser sent a valid one."""

    user_id: str
    org_id: str
    has_token: bool


class CookieOptions(TypedDict):
    """The attributes of the cookie."""

    path: str
    httponly: bool
    samesite: Literal["strict"]
    secure: bool


class PageFile(Struct, frozen=True):
    """A file of the page."""

    body: bytes
    media_type: str
    tag: str


@cache
def page_files() -> dict[str, PageFile]:
    """Read the files of the page, by name."""
    found: dict[str, PageFile] = {}
    for entry in files("contextinfinity.server.web").joinpath("static").iterdir():
        kind = TYPES.get(entry.name.rpartition(".")[2])
        if kind is not None:
            body = entry.read_bytes()
            found[entry.name] = PageFile(body, kind, f'"{sha256(body).hexdigest()[:32]}"')
    return found


@cache
def page_version() -> str:
    """Return a version of the files; it is part of their URLs, so browsers may cache them for ever."""
    tags = "".join(found.tag for _, found in sorted(page_files().items()))
    return sha256(tags.encode()).hexdigest()[:16]


@cache
def index() -> PageFile:
    """Return the page, with the addresses of this version's files."""
    body = page_files()["index.html"].body.replace(b'"/web/', f'"/web/{page_version()}/'.encode())
    return PageFile(body, TYPES["html"], f'"{page_version()}"')


@routes.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
async def page(request: Request) -> Response:
    """Return the page."""
    return _file(request, index(), NO_CACHE)


@routes.api_route("/web/{version}/{name}", methods=["GET", "HEAD"], include_in_schema=False)
async def page_file(request: Request, version: str, name: str) -> Response:
    """Return a file of the page; a page that was loaded from another release gets the file of this one."""
    found = page_files().get(name)
    if found is None:
        raise NotFound(f"The web page has no file {name[:80]!r}.")
    return _file(request, found, FOR_EVER if version == page_version() else NO_CACHE)


def _file(request: Request, found: PageFile, caching: dict[str, str]) -> Response:
    headers = {**HEADERS, **caching, "etag": found.tag}
    if request.headers.get("if-none-match") == found.tag:
        return Response(status_code=304, headers=headers)
    return Response(found.body, headers=headers, media_type=found.media_type)


@routes.get("/login", include_in_schema=False)
async def logged_in(caller: Asking) -> Response:
    """Return the user that this browser acts for; 401 where it has to log in."""
    owner = caller.owner()
    return answer(LoggedIn(user_id=owner.user_id, org_id=owner.org_id, has_token=caller.token is not None))


@routes.post("/login", include_in_schema=False)
async def log_in(request: Request, body: Annotated[Login, Depends(body_of(Login))]) -> Response:
    """Keep a valid token as a cookie of this browser; 401 for any other."""
    tokens = app_state_of(request).tokens
    if not await tokens.needed():
        return answer(LoggedIn(user_id="local", org_id="", has_token=False))
    try:
        owner = (await tokens.check(body.token)).owner
    except TokenNeeded as error:
        raise TokenNeeded(error.message, hint="Enter a token that `cix token create --user NAME` printed.") from None
    response = answer(LoggedIn(user_id=owner.user_id, org_id=owner.org_id, has_token=True))
    response.set_cookie(COOKIE, body.token, max_age=COOKIE_SECONDS, **_cookie_options(request))
    return response


@routes.post("/logout", include_in_schema=False)
async def log_out(request: Request) -> Response:
    """Remove the cookie; the token stays valid."""
    response = answer({})
    response.delete_cookie(COOKIE, **_cookie_options(request))
    return response


def _cookie_options(request: Request) -> CookieOptions:
    """Return the cookie's attributes. Behind a TLS proxy only the Origin shows that the page was loaded over https."""
    is_https = request.url.scheme == "https" or request.headers.get("origin", "").startswith("https://")
    return {"path": "/", "httponly": True, "samesite": "strict", "secure": is_https}


@routes.post("/render", responses=gives(RenderedTexts, *WITH_BODY), openapi_extra=takes(RenderRequest))
async def render_markdown(
    request: Request, act: Annotated[ActingWith[RenderRequest], Depends(acting_with(RenderRequest))]
) -> Response:
    """Render markdown to HTML without scripts, styles or images, as the web page shows it."""
    texts, most = act.body.texts, app_state_of(request).server.max_message_chars
    if (length := sum(map(len, texts))) > most:
        raise TooLarge(f"The texts have {length} characters; the maximum is {most}.", hint="Send them in parts.")
    return answer(RenderedTexts(html=await asyncio.to_thread(lambda: tuple(map(render, texts)))))
