"""The harness itself: each kind of fault is seen, and what was named beforehand is none."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route

from tests.support.console.browser import TRACE_VARIABLE, Visit, visit

PAGE = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>A page</title><link rel=icon href='data:,'><h1>A page</h1>"
)
POLICY = "default-src 'self'; script-src 'self'; img-src data:; connect-src 'self'"


@pytest.fixture
def visitor(browser: Browser) -> Iterator[Visit]:
    """A visit whose faults don't fail the test, to a site where /app.js is the test's."""
    found = visit(browser, "http://site.example")
    found.page.route("**/*", lambda route: route.fulfill(status=404))
    found.page.route("http://site.example/page", lambda route: _fulfill(route, f"{PAGE}<script src=/app.js></script>"))
    with closing(found):
        yield found


def _fulfill(route: Route, body: str) -> None:
    route.fulfill(body=body, content_type="text/html", headers={"Content-Security-Policy": POLICY})


def _run(visitor: Visit, script: str) -> list[str]:
    visitor.page.route("**/app.js", lambda route: route.fulfill(body=script, content_type="text/javascript"))
    visitor.open("/page")
    visitor.page.wait_for_load_state("networkidle")
    return visitor.problems()


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("console.error('it broke')", "console error: it broke"),
        ("console.assert(1 > 2, 'arithmetic')", "console assert: arithmetic"),
        ("setTimeout(() => { throw new Error('nobody caught me') })", "nobody caught me"),
        ("Promise.reject(new Error('nobody waited'))", "nobody waited"),
        ("fetch('/gone')", "GET http://site.example/gone 404"),
        ("const i = new Image(); i.src = '/picture.png'", "Content Security Policy"),
        (
            "document.body.append(Object.assign(document.createElement('script'), {text: '1'}))",
            "Content Security Policy",
        ),
    ],
)
def test_a_fault_is_seen(visitor: Visit, script: str, said: str) -> None:
    assert [line for line in _run(visitor, script) if said in line], visitor.problems()


def test_a_server_error_is_told_from_other_faults_and_none_when_it_is_expected(visitor: Visit) -> None:
    visitor.page.route("**/broken", lambda route: route.fulfill(status=500))
    assert len(_run(visitor, "fetch('/broken'); fetch('/gone')")) == 2
    assert visitor.server_errors == ["GET http://site.example/broken 500"]
    visitor.expects(500, "/broken")
    _run(visitor, "fetch('/broken')")
    assert visitor.server_errors == ["GET http://site.example/broken 500"]


def test_a_request_that_fails_is_seen(visitor: Visit) -> None:
    visitor.page.route("**/away", lambda route: route.abort("connectionrefused"))
    assert any(
        "/away failed: net::ERR_CONNECTION_REFUSED" in line for line in _run(visitor, "fetch('/away').catch(() => 0)")
    )


def test_words_of_the_page_and_requests_it_gives_up_are_no_fault(visitor: Visit) -> None:
    script = "console.log('a word'); const c = new AbortController(); fetch('/x', c).catch(() => 0); c.abort()"
    assert _run(visitor, script) == []


def test_what_an_absent_server_does_not_take_is_no_fault_while_that_is_meant(visitor: Visit) -> None:
    visitor.page.route("**/away", lambda route: route.abort("connectionrefused"))
    ask = "fetch('/away').catch(() => new Promise(done => new WebSocket('ws://site.example/ws').onclose = done))"
    assert _run(visitor, "") == []
    with visitor.without_server():
        visitor.page.evaluate(ask)
    assert visitor.problems() == []
    visitor.page.evaluate(ask)
    assert ["/away" in line or "WebSocket" in line for line in visitor.problems()] == [True, True]


def test_what_was_named_is_no_fault_and_has_to_come(visitor: Visit) -> None:
    visitor.expects(404, "/api/*/orders/")
    assert visitor.problems() == ["expected 404 from /api/*/orders/, which never came"]
    assert _run(visitor, "fetch('/api/v1/orders/?page=2')") == []


def test_axe_names_what_it_finds(visitor: Visit) -> None:
    _run(visitor, "document.body.append(document.createElement('button'))")
    with pytest.raises(AssertionError, match="button-name"):
        visitor.axe_clean()


def test_a_visit_leaves_what_is_needed_to_look_into_it(visitor: Visit, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    _run(visitor, "console.error('it broke')")
    visitor.save(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["console.log", "page0.html", "page0.png"]
    assert "it broke" in (folder / "console.log").read_text()


def test_a_trace_is_kept_where_it_was_asked_for(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TRACE_VARIABLE, "1")
    with closing(visit(browser, "http://site.example")) as traced:
        traced.save(tmp_path)
    assert (tmp_path / "trace.zip").stat().st_size > 0
