"""An action that needs the password again, six minutes after signing in."""

from collections.abc import Callable

from playwright.sync_api import expect

from tests.served.e2e.pages import Inside
from tests.support.console.browser import Visit
from tests.support.console.password import PASSWORD
from tests.support.servers.system import System

TOKENS = "/api/v1/tokens/"
SIX_MINUTES = 360
_AGE = """
import django, sys
django.setup()
from importlib import import_module
from django.conf import settings
store = import_module(settings.SESSION_ENGINE).SessionStore
for row in store.get_model_class().objects.all():
    data = row.get_decoded()
    for record in data.get("account_authentication_methods", ()):
        record["at"] -= float(sys.argv[1])
    row.session_data = store().encode(data)
    row.save()
"""


def test_a_new_token_six_minutes_after_signing_in(new_visit: Callable[..., Visit], console: System) -> None:
    visit = new_visit(user="olga")
    page = Inside(visit)
    visit.open("/tokens")
    page.settles()
    console.python("-c", _AGE, str(SIX_MINUTES))
    keys: list[str] = []
    page.page.on(
        "request",
        lambda request: (
            keys.append(request.headers["idempotency-key"])
            if request.method == "POST" and request.url.partition("?")[0].endswith(TOKENS)
            else None
        ),
    )
    page.button("tokens:create.title").click()
    dialog = page.page.get_by_role("dialog", name=page.text("tokens:create.title"))
    dialog.get_by_label(page.text("tokens:column.name"), exact=True).fill("deploys")
    visit.expects(403, TOKENS)
    dialog.locator("[data-action=apply]").click()
    proof = page.page.get_by_role("dialog", name=page.text("proof.title"))
    proof.get_by_label(page.text("proof.password"), exact=True).fill(PASSWORD)
    proof.get_by_role("button", name=page.text("proof.go_on")).click()
    expect(page.page.get_by_role("dialog", name=page.text("tokens:create.made"))).to_contain_text("qmq_")
    assert len(keys) == 2, "the change, and again after the password"
    assert keys[0] == keys[1], "both tries have one key"
