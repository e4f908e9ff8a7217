"""Routes of the web page: its files, logging in, and markdown.

The files are public and contain no user data; the page reads and writes through the routes that all clients use. A
browser that logged in sends its token as a cookie that no script can read (``auth.COOKIE``).
"""

from __future__ import annotations

import asyncio
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict

from fastapi import APIRouter, Depends, Request
from msgspec import Struct
from starlette.responses import Response

from contextinfinity.errors import NotFound, TokenNeeded, TooLarge
from contextinfinity.server.app_state import app_state_of
from contextinfinity.server.auth import COOKIE, ActingWith, Asking, acting_with
from contextinfinity.server.bodies import WITH_BODY, Login, RenderedTexts, RenderRequest, answer, body_of, gives, takes
from contextinfinity.server.web.markdown import render

if TYPE_CHECKING:
    pass


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
