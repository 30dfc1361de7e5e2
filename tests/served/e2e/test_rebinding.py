"""A web page whose host name was rebound to this machine can't use the admin pages of nodes (F-10)."""

from collections.abc import Callable

from playwright.sync_api import Browser

from tests.support.console.browser import REBOUND_NAME
from tests.support.servers.system import System

_STATUSES = """async () => {
    const headers = {"Content-Type": "application/json"}
    const reset = {method: "POST", headers, body: JSON.stringify({to: "latest"})}
    const asked = [["/stats"], ["/subjects/orders/messages"], ["/subjects/orders/groups/g/reset", reset]]
    return await Promise.all(asked.map(async ([path, options]) => (await fetch(path, options)).status))
}"""


def test_a_rebound_page_reads_and_changes_nothing(browser: Browser, new_system: Callable[..., System]) -> None:
    system = new_system(groups=1)
    system.start()
    assert system.qmq("produce", "orders").returncode == 0
    port = system.ports["g1"][1]
    page = browser.new_page()
    try:
        # Health pages are open, so this one stands for the attacker's: what counts is the page's origin.
        page.goto(f"http://{REBOUND_NAME}:{port}/healthz")
        assert page.evaluate("location.origin") == f"http://{REBOUND_NAME}:{port}"
        assert page.evaluate(_STATUSES) == [403, 403, 403]
        page.goto(f"http://127.0.0.1:{port}/healthz")
        assert page.evaluate(_STATUSES) == [200, 200, 200]
    finally:
        page.close()
