"""Who may only look sees the pages without the buttons, and asking without a button is refused as well."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from playwright.sync_api import Locator, expect

from tests.served.e2e.furniture import Furniture
from tests.served.e2e.pages import Inside, text
from tests.support.console.browser import Visit
from tests.support.servers.processes import PROJECT

HIDDEN_PAGES = ("users", "audit", "provisioning")
"""Nothing leads a viewer there, by their names in the navigation."""
BUTTONS = {
    "subjects": {
        "/subjects": ("subjects:create.title",),
        "/subjects/{subject}?tab=messages": ("messages:send.open",),
        "/subjects/{subject}?tab=placement": ("subjects:placement.change",),
    },
    "delivery": {
        "/groups/{subject}/{group}": ("groups:action.pause", "groups:action.reset", "groups:action.forget"),
        "/dead-letters/{subject}/{group}": ("dead_letters:action.replay_all", "dead_letters:action.delete_all"),
        "/delayed": ("delayed:bulk.open",),
        "/delayed?message={delayed}&of={subject}": tuple(
            f"delayed:change.{operation}.open" for operation in ("cancel", "deliver", "reschedule")
        ),
    },
    "cluster": {
        "/brokers": ("brokers:add.open",),
        "/brokers/{broker_group}": ("brokers:action.drain.open", "brokers:action.read-only.open"),
        "/jobs": ("jobs:disable",),
    },
    "watching": {
        "/alerts?tab=rules": ("alert_pages:rule.create",),
        "/alerts?tab=channels": ("alert_pages:channel.create",),
        "/alerts?tab=silences": ("alerts:silence.create",),
        "/teams": ("teams:create.title",),
        "/teams/{team}": ("teams:members.edit", "teams:delete.title"),
    },
}
"""By area and page, what changes something."""
OWN = ("/api/v1/me/", "/api/v1/tokens/")
"""What everybody may change: the own account."""


def _changes() -> list[tuple[str, str]]:
    """Every change that the API knows, but those of the own account."""
    paths: dict[str, dict[str, Any]] = yaml.safe_load((PROJECT / "api/openapi.yaml").read_text())["paths"]
    return [
        (method.upper(), path)
        for path, methods in paths.items()
        for method in methods
        if method in ("post", "put", "patch", "delete") and not path.startswith(OWN)
    ]


def _buttons(visit: Visit, key: str) -> Locator:
    return visit.page.get_by_role("button", name=text("en", key), exact=True)


@pytest.mark.parametrize("area", BUTTONS)
def test_buttons_are_for_those_who_may(new_visit: Callable[..., Visit], furniture: Furniture, area: str) -> None:
    admin, viewer = Inside(new_visit(user="ada")), Inside(new_visit(user="vera"))
    for pattern, keys in BUTTONS[area].items():
        address = furniture.address(pattern)
        admin.visit.open(address)
        viewer.visit.open(address)
        for key in keys:
            expect(_buttons(admin.visit, key).first).to_be_visible()
        viewer.settles()
        for key in keys:
            expect(_buttons(viewer.visit, key)).to_have_count(0)


def test_the_navigation_names_only_pages_one_may_see(new_visit: Callable[..., Visit]) -> None:
    for user, count in (("ada", 1), ("vera", 0)):
        inside = Inside(new_visit(user=user))
        inside.visit.open("/subjects")
        inside.is_shown(user)
        navigation = inside.page.get_by_role("navigation", name=inside.text("nav.label"))
        expect(navigation.get_by_role("link", name=inside.text("nav.groups"), exact=True)).to_have_count(1)
        for name in HIDDEN_PAGES:
            link = navigation.get_by_role("link", name=inside.text(f"nav.{name}"), exact=True)
            expect(link).to_have_count(count)


def test_a_page_that_one_may_not_open_shows_only_the_error(new_visit: Callable[..., Visit]) -> None:
    viewer = Inside(new_visit(user="vera"))
    for path, key in (
        ("/users", "users:create.title"),
        ("/audit", "audit:verify.start"),
        ("/provisioning", "provisioning:title"),
    ):
        viewer.visit.open(path)
        expect(viewer.problem).to_contain_text(viewer.text("problem.page_forbidden"))
        expect(_buttons(viewer.visit, key)).to_have_count(0)
        expect(viewer.page.locator("main").get_by_role("textbox")).to_have_count(0)


def test_the_api_refuses_every_change(new_visit: Callable[..., Visit]) -> None:
    visit = new_visit(user="vera")
    visit.open("/account")
    Inside(visit).is_shown("vera")
    changes = [(method, re.sub(r"\{\w+\}", "1", path)) for method, path in _changes()]
    for _, path in changes:
        visit.expects(403, path)
    # As the page itself asks, with its cookies: a missing token of the form would be refused for another reason.
    codes = visit.page.evaluate(
        """async changes => {
            const token = document.cookie.match(/qmq_csrf=([^;]+)/)[1];
            const headers = {"X-CSRFToken": token, "Content-Type": "application/json"};
            const code = async ([method, path]) =>
                (await (await fetch(path, {method, headers, body: "{}"})).json()).code;
            return Promise.all(changes.map(code));
        }""",
        changes,
    )
    allowed = {change: code for change, code in zip(changes, codes, strict=True) if code != "access.denied"}
    assert not allowed
