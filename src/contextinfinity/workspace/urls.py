"""Pages from the web, fetched on request and turned into text that a prompt shows as untrusted data.

Only public addresses are reached unless private ones are allowed: the name is resolved once, every address it has is
checked, and the connection goes to the checked address, so that a second look-up cannot lead elsewhere. Redirects are
checked the same way. Proxies of the environment are not used. Size, time and the number of redirects have limits.
"""

from __future__ import annotations

import http.client
import ipaddress
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html.parser import HTMLParser
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from contextinfinity.errors import InvalidInput, Refused

MAX_BYTES, MAX_SECONDS, MAX_REDIRECTS = 2_000_000, 15.0, 5
_TEXT_TYPES = re.compile(r"text/|application/(json|xml|xhtml\+xml|[\w.+-]+\+(json|xml)|javascript|toml|yaml)")
_HTML = ("text/html", "application/xhtml+xml")
_COMPATIBLE = ipaddress.ip_network("::/96")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_SKIPPED = frozenset({"script", "style", "noscript", "template", "svg", "nav", "footer", "iframe"})
_BLOCKS = frozenset(
    {*("p", "div", "br", "li", "ul", "ol", "tr", "table", "section", "article", "header", "main", "pre", "hr")}
    | {*("h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "dt", "dd")}
)
_CHARSET = re.compile(rb"<meta[^>]{1,200}charset=[\"']?([\w-]+)", re.IGNORECASE)
_SAFE = "/%:@!$&'()*+,;=~-._?[]"
_HIDDEN_BLANKS = {ord(" "): "\ue000", ord("\t"): "\ue001"}
"""Replacements for the blanks of preformatted text, while runs of other blanks are reduced to one."""
_SHOWN_BLANKS = {ord("\ue000"): " ", ord("\ue001"): "\t"}

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, kw_only=True)
class Page:
    """A fetched page: the address it finally came from, its title, and its text."""

    url: str
    title: str
    text: str


def fetch_page(
    url: str,
    *,
    allow_private: bool = False,
    seconds: float = MAX_SECONDS,
    allowed: Callable[[Address], bool] | None = None,
) -> Page:
    """Fetch a page and return its text; ``Refused`` with the reason if it cannot or must not be fetched.

    ``allowed`` tells which addresses may be connected to; by default those that are public.
    """
    deadline = time.monotonic() + seconds
    may_reach = allowed or (any_address if allow_private else is_public)
    for _ in range(MAX_REDIRECTS + 1):
        parts = _checked(url)
        status, headers, body = _get(parts, deadline, may_reach)
        location = headers.get("location")
        if status in (301, 302, 303, 307, 308) and location:
            url = urljoin(url, location)
            continue
        if status != 200:
            raise Refused(f"{url} answered with status {status}.", hint="Check the address.")
        return _page(url, headers.get("content-type", "text/plain"), body)
    raise Refused(f"{url} redirects more than {MAX_REDIRECTS} times.", hint="Use the final address.")


def _checked(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        port_is_valid = (parts.port is None or parts.port > 0) and " " not in parts.netloc
    except ValueError:
        parts, port_is_valid = urlsplit(""), False
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_valid or not url.isprintable():
        raise InvalidInput(
            f"{url[:200]!r} is not a web address.", hint="Give one that begins with http:// or https://."
        )
    if parts.username is not None or parts.password is not None:
        raise InvalidInput("The address contains a user name or password.", hint="Leave them out.")
    return parts


def _get(
    parts: SplitResult, deadline: float, may_reach: Callable[[Address], bool]
) -> tuple[int, http.client.HTTPMessage, bytes]:
    """Send one request to the checked address; redirects are not followed here."""
    host = _ascii(str(parts.hostname))
    port = parts.port or (443 if parts.scheme == "https" else 80)
    addresses = _resolved(host, port, may_reach)
    try:
        sock = _connected(addresses, port, deadline)
        ends = threading.Timer(_left(deadline), _shut_down, [sock])
        ends.daemon = True
        ends.start()
    except OSError as error:
        raise Refused(f"{host} cannot be reached: {error}.", hint="Check the address and the network.") from error
    connection = http.client.HTTPConnection(host, port)
    try:
        connection.sock = sock
        if parts.scheme == "https":
            connection.sock = ssl.create_default_context().wrap_socket(sock, server_hostname=host)
        found = _exchange(connection, parts, host)
        _left(deadline)  # a page that was cut off by the time limit is not a page
        return found
    except (OSError, http.client.HTTPException, UnicodeError) as error:
        raise Refused(f"{host} does not answer: {error}.", hint="Check the address and the network.") from error
    finally:
        ends.cancel()
        connection.close()
        sock.close()


def _ascii(host: str) -> str:
    """Return the name of a host as the domain name system spells it."""
    try:
        return host if host.isascii() else host.encode("idna").decode()
    except UnicodeError as error:
        raise InvalidInput(f"{host[:200]!r} is not the name of a host.", hint="Check the address.") from error


def _connected(addresses: Sequence[Address], port: int, deadline: float) -> socket.socket:
    """Connect to the first address that can be reached; a host may have one of IPv6 that this network cannot reach."""
    for address in addresses[:-1]:
        with suppress(OSError):
            return socket.create_connection((str(address), port), timeout=_left(deadline) / 2)
    return socket.create_connection((str(addresses[-1]), port), timeout=_left(deadline))


def _exchange(
    connection: http.client.HTTPConnection, parts: SplitResult, host: str
) -> tuple[int, http.client.HTTPMessage, bytes]:
    """Send the request and read the response within its limits."""
    target = quote(parts.path or "/", safe=_SAFE) + (f"?{quote(parts.query, safe=_SAFE)}" if parts.query else "")
    headers = {
        "User-Agent": "contextinfinity",
        "Accept": "text/*, application/json;q=0.9",
        "Accept-Encoding": "identity",
    }
    connection.request("GET", target, headers=headers)
    response = connection.getresponse()
    if response.status != 200:
        return response.status, response.headers, b""
    if not _TEXT_TYPES.match(kind := response.headers.get("content-type", "text/plain").lower()):
        raise Refused(f"{host} sent {kind[:100]}, which is not text.", hint="Give the address of a page.")
    if response.headers.get("content-encoding", "identity") != "identity":
        raise Refused(f"{host} sent a compressed page that was not asked for.", hint="Save the page as a file.")
    body = response.read(MAX_BYTES + 1)
    if len(body) > MAX_BYTES:
        raise Refused(f"The page of {host} is larger than {MAX_BYTES} bytes.", hint="Give a smaller page.")
    return response.status, response.headers, body


def _shut_down(sock: socket.socket) -> None:
    """End a connection whose time is over, whatever it is doing."""
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("it took too long")
    return left


def _resolved(host: str, port: int, may_reach: Callable[[Address], bool]) -> list[Address]:
    """Return the addresses of a host; refused if one of them must not be reached."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Refused(f"{host} cannot be resolved: {error}.", hint="Check the address.") from error
    addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
    if not all(map(may_reach, addresses)):
        hint = "Write /url private ADDRESS, or give allow_private=True, if you trust it."
        raise Refused(f"{host} is not a public address.", hint=hint)
    return list(dict.fromkeys(addresses))


def any_address(_: Address) -> bool:
    """Allow every address."""
    return True


def is_public(address: Address) -> bool:
    """Return whether an address is reachable from the internet, also one that is embedded in an IPv6 address."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
        if address.is_site_local or address in _COMPATIBLE:  # both are deprecated, and may be routed inside a network
            return False
    return address.is_global and not address.is_multicast


def _page(url: str, content_type: str, body: bytes) -> Page:
    kind, _, more = content_type.partition(";")
    is_html = kind.strip().lower() in _HTML
    charset = re.search(r"charset=\"?([\w-]+)", more)
    named = _CHARSET.search(body[:1024]) if is_html and not charset else None
    try:
        text = body.decode(charset[1] if charset else named[1].decode() if named else "utf-8-sig", errors="replace")
    except LookupError:
        text = body.decode(errors="replace")
    text = text.replace("\x00", "")
    if not is_html:
        return Page(url=url, title="", text=text.strip())
    reader = _Reader()
    reader.feed(text)
    reader.close()
    lines = (" ".join(line.split()) for line in "".join(reader.pieces).split("\n"))
    shown = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    shown = shown.translate(_SHOWN_BLANKS)
    return Page(url=url, title=" ".join(reader.title.split()), text=shown)


class _Reader(HTMLParser):
    """Collects what a page says, without scripts, styles and navigation."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self.title = ""
        self._skipped: list[str] = []
        self._in_title = self._is_preformatted = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a part."""
        self._in_title = tag == "title" and not self._skipped
        self._is_preformatted |= tag == "pre"
        if tag in _SKIPPED:
            self._skipped.append(tag)
        elif tag in _BLOCKS:
            self.pieces.append("\n")

    def handle_endtag(self, tag: str) -> None:
        """End a part."""
        self._in_title = False
        self._is_preformatted &= tag != "pre"
        if tag in self._skipped:
            while self._skipped.pop() != tag:
                pass
        elif tag in _BLOCKS:
            self.pieces.append("\n")

    def handle_data(self, data: str) -> None:
        """Keep the text of a part that is shown."""
        if self._in_title:
            self.title += data
        elif not self._skipped:
            self.pieces.append(data.translate(_HIDDEN_BLANKS) if self._is_preformatted else data)
