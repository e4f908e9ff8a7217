"""What a browser needs of the server: the page's files, the cookie of a login, markdown, images."""

from __future__ import annotations

import base64
import re
from typing import Any

import httpx2
import pytest

from contextinfinity.server.web.page_routes import page_files, page_version
from tests.doors.cix import Cix
from tests.doors.server import Server
from tests.doors.web.conftest import Guarded

SCRIPT_BYTES = 100_000
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


pytestmark = pytest.mark.xdist_group("browser")  # the tests of the page use the same server


def login(guarded: Guarded, token: str, **headers: str) -> httpx2.Response:
    """Log in as a browser does."""
    return guarded.server.post("/login", {"token": token}, **headers)


def cookie_of(response: httpx2.Response) -> dict[str, str]:
    """Return the cookie of a login as a browser sends it back."""
    return {"Cookie": response.headers["set-cookie"].partition(";")[0]}


@pytest.mark.req("WEB-1")
def test_the_page_and_its_files_are_open_and_forbid_every_foreign_script(guarded: Guarded) -> None:
    for path in ("/", *(f"/web/{page_version()}/{name}" for name in page_files())):
        answer = guarded.server.http.get(path)
        policy = answer.headers["content-security-policy"]
        assert answer.status_code == 200, path
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        again = guarded.server.http.get(path, headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
    for path in ("/web/1/..%2fpage_routes.py", "/web/1/markdown.py", "/web/", "/web/1/%2e%2e"):
        assert guarded.server.http.get(path).status_code == 404


@pytest.mark.req("WEB-1")
def test_a_browser_keeps_the_files_of_this_release_and_asks_for_the_page_again(guarded: Guarded) -> None:
    get = guarded.server.http.get
    page = get("/")
    addresses = re.findall(r'(?:src|href)="(/web/[^"]+)"', page.text)
    assert page.headers["cache-control"] == "no-cache"
    assert {address.split("/")[2] for address in addresses} == {page_version()}
    assert "immutable" in get(addresses[0]).headers["cache-control"]
    old = get("/web/0123456789abcdef/app.js")
    assert (old.status_code, old.headers["cache-control"]) == (200, "no-cache")


@pytest.mark.req("WEB-1")
def test_the_script_of_the_page_is_small_and_all_its_own() -> None:
    scripts = {name: found.body for name, found in page_files().items() if name.endswith(".js")}
    assert sum(map(len, scripts.values())) <= SCRIPT_BYTES
    for name, body in {**scripts, "index.html": page_files()["index.html"].body}.items():
        loaded = re.findall(rb'(?:from|import\(|src=|href=)\s*"([^"]+)"', body)
        assert [address for address in loaded if not address.startswith((b"./", b"/web/", b"#"))] == [], name
        assert b"eval(" not in body
        assert body.count(b"innerHTML") == (name == "dom.js"), name
    assert b"<script>" not in page_files()["index.html"].body


@pytest.mark.req("WEB-1", "SAFE-5")
def test_a_login_keeps_the_token_where_no_script_and_no_other_site_reads_it(guarded: Guarded) -> None:
    http = guarded.server.http
    refused = login(guarded, "cix_wrong")
    assert (refused.status_code, "set-cookie" in refused.headers) == (401, False)
    assert "cix token create" in refused.json()["hint"]
    answer = login(guarded, guarded.ann["token"])
    told = answer.headers["set-cookie"].lower()
    assert answer.json() == {"user_id": "ann", "org_id": "", "has_token": True}
    assert all(part in told for part in ("httponly", "samesite=strict", "path=/"))
    assert "secure" not in told
    over_tls = login(guarded, guarded.ann["token"], Origin=guarded.server.url.replace("http://", "https://"))
    assert "secure" in over_tls.headers["set-cookie"].lower()
    http.cookies.clear()
    cookie = cookie_of(answer)
    assert http.get("/login").status_code == 401
    assert http.get("/login", headers=cookie).json()["user_id"] == "ann"
    assert http.get("/threads", headers=cookie).status_code == 200
    assert http.get("/threads", params={"user_id": "bob"}, headers=cookie).status_code == 403
    gone = http.post("/logout", headers=cookie)
    assert 'cix_token=""' in gone.headers["set-cookie"]
    http.cookies.clear()


@pytest.mark.req("SAFE-10")
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=str,
)
def test_a_page_of_another_site_or_port_cannot_use_the_cookie(guarded: Guarded, headers: dict[str, str]) -> None:
    http, cookie = guarded.server.http, cookie_of(login(guarded, guarded.ann["token"]))
    http.cookies.clear()
    made = http.post("/threads", json={}, headers=cookie).json()["thread_id"]
    for method, path, body in [
        ("POST", "/threads", {}),
        ("POST", "/memories", {"content": "I like pie."}),
        ("POST", f"/threads/{made}/unfold", None),
        ("DELETE", f"/threads/{made}", None),
    ]:
        answer = http.request(method, path, json=body, headers={**cookie, **headers})
        assert answer.status_code in (401, 403), (path, answer.text)
    if "Sec-Fetch-Site" in headers:
        assert http.get(f"/threads/{made}", headers={**cookie, **headers}).status_code == 403
        link = {**cookie, **headers, "Sec-Fetch-Mode": "navigate"}
        assert http.get(f"/threads/{made}", headers=link).status_code == 401
    assert http.get(f"/threads/{made}", headers=cookie).status_code == 200


@pytest.mark.req("WEB-1", "SAFE-5")
def test_a_revoked_token_ends_the_login(guarded: Guarded) -> None:
    cix = Cix(guarded.server.folder)
    made = cix.json("token", "create", "--user", "carl")
    cookie = cookie_of(login(guarded, made["token"]))
    guarded.server.http.cookies.clear()
    assert guarded.server.http.get("/login", headers=cookie).status_code == 200
    cix.json("token", "revoke", made["id"])
    assert guarded.server.http.get("/login", headers=cookie).status_code == 401


@pytest.mark.req("WEB-1")
def test_markdown_is_rendered_in_order_and_too_much_of_it_is_refused(server: Server) -> None:
    told: dict[str, Any] = server.post("/render", {"texts": ["**a**", "", "`b`"]}).json()
    assert told["html"] == ["<p><strong>a</strong></p>\n", "", "<p><code>b</code></p>\n"]
    assert server.post("/render", {"texts": ["x" * 600_000, "x" * 600_000]}).status_code == 413
    assert server.post("/render", {"texts": ["x"] * 201}).status_code == 422


@pytest.mark.req("WEB-1", "API-14")
def test_an_image_of_a_message_is_read_by_its_owner_only(server: Server) -> None:
    source = {"type": "base64", "data": base64.b64encode(PIXEL).decode()}
    image = {"type": "image", "media_type": "image/png", "source": source}
    body = {"content": [{"type": "text", "text": "What is this?"}, image], "user_id": "ida"}
    turn = server.post("/threads/new/messages", body).json()
    path, ida = f"/threads/{turn['thread_id']}/turns/{turn['turn_id']}/images", {"user_id": "ida"}
    messages = server.http.get(f"/threads/{turn['thread_id']}/messages", params=ida).json()["messages"]
    assert [message["images"] for message in messages] == [1, 0]
    answer = server.http.get(f"{path}/1", params=ida)
    assert (answer.content, answer.headers["content-type"]) == (PIXEL, "image/png")
    assert "sandbox" in answer.headers["content-security-policy"]
    assert server.http.get(f"{path}/2", params=ida).status_code == 404
    assert server.http.get(f"{path}/1").status_code == 404
