"""The documentation as pages: which there are, where their links lead, what a search finds; and the page of the API."""

import re
from html.parser import HTMLParser

import pytest
from django.test import Client

from tests.support.servers.processes import PROJECT


class Links(HTMLParser):
    """The links, pictures and anchors of a page."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.links += [value for name in ("href", "src") if (value := values.get(name)) and tag != "link"]
        if identifier := values.get("id"):
            self.anchors.add(identifier)


def _read(address: str) -> str:
    answer = Client().get(address)
    assert answer.status_code == 200, address
    return answer.content.decode("utf-8", "replace")


def test_every_page_is_there_and_every_link_in_it_leads_somewhere() -> None:
    names = [path.relative_to(PROJECT / "docs").with_suffix("").as_posix() for path in PROJECT.glob("docs/**/*.md")]
    assert len(names) > 40
    pages = {f"/docs/{name}": Links(_read(f"/docs/{name}")) for name in names}
    pages["/docs/"] = pages["/docs/index"]
    broken = []
    for address, page in pages.items():
        for link in page.links:
            path, _, anchor = link.partition("#")
            if path.startswith("/docs/images/") or path == "/docs/api":
                _read(path)
            elif path.startswith("/docs/") or (anchor and not path):
                there = pages.get(path or address)
                if there is None or (anchor and anchor not in there.anchors):
                    broken.append((address, link))
            else:
                assert re.match(r"https?://|/$", link), (address, link)
    assert broken == []


def test_headings_texts_and_tables_are_shown_as_such() -> None:
    content = _read("/docs/reference/limits")
    assert "<table>" in content
    assert '<h1 id="' in content


@pytest.mark.parametrize("name", ["nothing", "../README", "reference/../../README", "images", "reference/"])
def test_what_is_no_page_is_not_found(name: str) -> None:
    answer = Client().get(f"/docs/{name}")
    assert answer.status_code == 404


def test_pictures_are_of_the_folder_only() -> None:
    assert Client().get("/docs/images/overview.png").headers["Content-Type"] == "image/png"
    assert Client().get("/docs/images/../index.md").status_code == 404
    assert Client().get("/docs/images/nothing.png").status_code == 404


def test_a_search_finds_pages_with_all_words() -> None:
    found = _read("/docs/?q=dead+LETTERS")
    assert 'href="/docs/how-to/retries-and-dead-letters"' in found
    assert "No page contains all" in _read("/docs/?q=dead+xyzzy")


def test_a_search_shows_what_was_typed_as_text() -> None:
    found = _read("/docs/?q=%3Cscript%3Ealert(1)%3C/script%3E")
    assert "<script>" not in found
    assert "&lt;script&gt;" in found


def test_a_search_is_bounded() -> None:
    content = _read("/docs/?q=the")
    assert content.count("<li>") == 20
    assert "more pages: add a word" in content
    assert f'value="{"x" * 100}"' in _read(f"/docs/?q={'x' * 5000}")


def test_pages_load_nothing_but_our_own_styles_and_pictures() -> None:
    policy = Client().get("/docs/").headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src" not in policy


@pytest.mark.usefixtures("build")
def test_the_page_of_the_api_has_its_scripts_from_us() -> None:
    client = Client()
    page = client.get("/docs/api")
    assert page.status_code == 200
    assert "script-src 'self'" in page.headers["Content-Security-Policy"]
    sources = re.findall(r'src="([^"]+)"', page.content.decode())
    assert "/static/swagger/swagger-ui-bundle.js" in sources
    assert client.get("/static/swagger/swagger-ui-bundle.js").status_code == 200
    assert client.get("/static/swagger/swagger-ui.css").headers["Content-Type"].startswith("text/css")
