"""The documentation at /docs/: the project's Markdown files as pages, so that each page of the console can link to its own,
and the API's description as a page in which operations can be tried.

Readable without signing in and without access to the internet: it contains nothing about the running system.
"""

import html
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import quote, urlsplit

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

SEARCH_CHARS_MAX = 100
"""Longer searches are cut."""
SEARCH_PAGES_MAX = 20
"""Most pages of one search."""
EXCERPT_CHARS = 120
"""Characters around the first word of a match."""
INDEX = "index"
_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_NAME = re.compile(r"[a-z0-9-]+(?:/[a-z0-9-]+)?")
_IMAGE = re.compile(r"[a-z0-9-]+\.png")


@dataclass(frozen=True, slots=True)
class Page:
    """One page: its title, its source and its content as HTML."""

    title: str
    text: str
    content: str


@require_safe
def page(request: HttpRequest, name: str = INDEX) -> HttpResponse:
    """Return a page of the documentation, or with `?q=` the pages that contain all words of a search."""
    name = name.strip("/") or INDEX
    words = request.GET.get("q", "")[:SEARCH_CHARS_MAX]
    if words.strip():
        return _answer(f"Search: {words}", _found(words), words)
    found = _pages().get(name)
    if found is None:
        raise Http404
    return _answer(found.title, found.content)


@require_safe
def image(_: HttpRequest, name: str) -> HttpResponse:
    """Return a picture of the documentation."""
    path = settings.DOCS_DIR / "images" / name
    if not _IMAGE.fullmatch(name) or not path.is_file():
        raise Http404
    return HttpResponse(path.read_bytes(), content_type="image/png", headers={"Cache-Control": "max-age=3600"})


@cache
def _pages() -> dict[str, Page]:
    """All pages by their names (`how-to/send`), read once: they change with the version."""
    folder: Path = settings.DOCS_DIR
    paths = {path.relative_to(folder).with_suffix("").as_posix(): path for path in folder.glob("**/*.md")}
    return {name: _page(name, path, frozenset(paths)) for name, path in sorted(paths.items()) if _NAME.fullmatch(name)}


def _page(name: str, path: Path, names: frozenset[str]) -> Page:
    text = path.read_text("utf-8")
    markdown = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    tokens = markdown.parse(text)
    titles: list[str] = []
    for i, token in enumerate(tokens):
        if token.type == "heading_open":
            titles.append(tokens[i + 1].content)
            token.attrSet("id", slug(titles[-1]))
        for child in token.children or ():
            _set_address(child, name, names)
    return Page(titles[0] if titles else name, text, markdown.renderer.render(tokens, markdown.options, {}))


def slug(title: str) -> str:
    """Return the anchor of a heading, as links in the files name it (GitHub's rule)."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _set_address(token: Token, name: str, names: frozenset[str]) -> None:
    """Make a link between files one between pages; what is outside of the documentation is text without a link."""
    if token.type == "image":
        token.attrSet("src", f"/docs/images/{Path(str(token.attrs['src'])).name}")
    elif token.type == "link_open":
        link = urlsplit(str(token.attrs["href"]))
        if link.scheme or not link.path:
            return
        parts: list[str] = name.split("/")[:-1]
        for part in link.path.split("/"):
            if part == "..":
                parts = parts[:-1] if parts else [".."]
            else:
                parts.append(part)
        target = "/".join(parts).removesuffix(".md")
        if target in names:
            token.attrSet("href", f"/docs/{target}" + (f"#{link.fragment}" if link.fragment else ""))
        else:
            del token.attrs["href"]


def _found(search: str) -> str:
    words = search.lower().split()
    items: list[str] = []
    for name, each in _pages().items():
        lowered = each.text.lower()
        if all(word in lowered for word in words):
            at = lowered.index(words[0])
            excerpt = each.text[max(0, at - EXCERPT_CHARS) : at + EXCERPT_CHARS]
            items.append(
                f'<li><a href="/docs/{quote(name)}">{html.escape(each.title)}</a>'
                f"<p>… {html.escape(' '.join(excerpt.split()))} …</p></li>"
            )
    if not items:
        return "<h1>No page contains all of these words</h1><p>Try fewer or other words.</p>"
    more = f"<p>{len(items) - SEARCH_PAGES_MAX} more pages: add a word.</p>" if len(items) > SEARCH_PAGES_MAX else ""
    return f"<h1>Pages that contain all words</h1><ul>{''.join(items[:SEARCH_PAGES_MAX])}</ul>{more}"


_API = f"""<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>API · PyQMQ</title>
    <link rel="icon" href="{settings.STATIC_URL}favicon.svg">
    <link rel="stylesheet" href="{settings.STATIC_URL}swagger/swagger-ui.css">
  </head>
  <body>
    <main id="swagger-ui"></main>
    <script src="{settings.STATIC_URL}swagger/swagger-ui-bundle.js"></script>
    <script src="{settings.STATIC_URL}api.js"></script>
  </body>
</html>
"""


@require_safe
@ensure_csrf_cookie
def api(_: HttpRequest) -> HttpResponse:
    """Return Swagger UI with the API's description. Operations that it sends use the session of the browser, or a token."""
    return HttpResponse(_API, headers={"Cache-Control": "no-cache"})


def _answer(title: str, content: str, words: str = "") -> HttpResponse:
    body = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)} · PyQMQ</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="{settings.STATIC_URL}favicon.svg">'
        f'<link rel="stylesheet" href="{settings.STATIC_URL}docs.css"></head><body>'
        '<header><a href="/docs/">Documentation</a><a href="/docs/api">API</a><a href="/">Console</a>'
        '<form role="search" action="/docs/"><input type="search" name="q" aria-label="Search the documentation"'
        f' placeholder="Search" maxlength="{SEARCH_CHARS_MAX}" value="{html.escape(words)}"></form></header>'
        f"<main>{content}</main></body></html>"
    )
    return HttpResponse(body, headers={"Content-Security-Policy": _POLICY, "Cache-Control": "no-cache"})
