"""The table of rights against the whole API: every address and method, asked by everybody.

Addresses are found by looking: a view that is added is covered without a change here, and one that names no rights fails.
"""

from dataclasses import dataclass
from typing import Any

import pytest
from django.db import transaction
from rest_framework.test import APIClient

from console.accounts import services
from console.accounts.principals import principal_of
from console.accounts.roles import OF_A_SUBJECT, Principal, Right, Role, Scope
from metaserver.services.subjects import create_subject
from metaserver.services.teams import create_team
from tests.served.api.routes import FOREIGN_TEAM, ROUTES, SUBJECT, TEAM, Route, address
from tests.support.console.people import TESTER, browser, machine, person
from tests.support.promises import PromiseBroken, judging

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


@pytest.fixture
def known(db: None) -> dict[str, str]:
    """What the addresses name: a subject of a team, a user."""
    create_team(TEAM, actor=TESTER)
    create_team(FOREIGN_TEAM, actor=TESTER)
    create_subject(SUBJECT, {"owner": TEAM}, actor=TESTER)
    bystander = person("bystander")
    return {"subject": SUBJECT, "team": TEAM, "user_id": str(bystander.pk)}


def methods(view: Any) -> set[str]:
    return {method for method in METHODS if hasattr(view, method.lower())}


@dataclass(frozen=True)
class Caller:
    """Who asks: with this client, as this principal (None: nobody)."""

    name: str
    client: APIClient
    principal: Principal | None


@pytest.fixture
def callers(known: dict[str, str]) -> list[Caller]:
    """One of every kind."""
    found = [Caller("anonymous", APIClient(raise_request_exception=False), None)]
    people = {
        "viewer": person("viewer", Role.VIEWER, [TEAM]),
        "operator": person("operator", Role.OPERATOR, [TEAM]),
        "foreign operator": person("foreign", Role.OPERATOR, [FOREIGN_TEAM]),
        "admin": person("root", Role.ADMIN),
    }
    for name, user in people.items():
        found.append(Caller(name, browser(user), principal_of(user)))
    for scope in Scope:
        user = people["admin"]
        found.append(Caller(f"admin's token {scope}", machine(user, scope), _with(user, scope)))
    user = people["foreign operator"]
    found.append(Caller("foreign operator's token operate", machine(user, Scope.OPERATE), _with(user, Scope.OPERATE)))
    return found


def _with(user: Any, scope: Scope) -> Principal:
    of_session = principal_of(user)
    return Principal(of_session.name, of_session.role, of_session.teams, frozenset({scope}))


def expected(caller: Caller, right: Right, route: Route) -> set[str]:
    """What the table says."""
    if caller.principal is None:
        return {"401"}
    if not caller.principal.has(right):
        return {"403"}
    names_subject = any(name == "subject" for name, _ in route.arguments)
    if right in OF_A_SUBJECT and not names_subject:
        # Whose subject it is about stands in the body, or nowhere: an empty body decides nothing about ownership.
        return {"allowed", "403"} if caller.principal.role is Role.OPERATOR else {"allowed"}
    return {"allowed"} if caller.principal.may(right, TEAM) else {"403"}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_a_view_names_the_right_of_each_of_its_methods(route: Route) -> None:
    rights = getattr(route.view, "rights", None)
    assert rights, f"{route.pattern}: the view has no `rights`"
    assert set(rights) == methods(route.view)
    assert all(isinstance(right, Right) for right in rights.values())


def test_everybody_may_what_the_table_says_and_nothing_else(known: dict[str, str], callers: list[Caller]) -> None:
    wrong = []
    asked = 0
    for route in ROUTES:
        where = address(route, known)
        for method, right in route.view.rights.items():
            for caller in callers:
                with transaction.atomic():
                    answer = caller.client.generic(method, where, b"{}", content_type="application/json")
                    transaction.set_rollback(True)
                asked += 1
                status = answer.status_code
                what = str(status) if status in (401, 403) else "allowed"
                if what not in expected(caller, right, route) or status == 500:
                    text = (
                        f"{method} {where} ({right}) by {caller.name}: {status}, not {expected(caller, right, route)}"
                    )
                    wrong.append(f"{text}: {answer.content[:200]!r}")
    if wrong:
        raise PromiseBroken("\n".join(wrong))
    assert asked == len(callers) * sum(len(methods(route.view)) for route in ROUTES)


def test_a_method_without_a_right_is_nobodys(known: dict[str, str], callers: list[Caller]) -> None:
    admin = next(caller for caller in callers if caller.name == "admin")
    for route in ROUTES:
        for method in set(METHODS) - methods(route.view):
            answer = admin.client.generic(method, address(route, known), b"{}", content_type="application/json")
            with judging():
                assert answer.status_code in (403, 405), f"{method} {route.pattern}"


def test_a_role_that_is_taken_away_is_gone_with_the_next_request(known: dict[str, str]) -> None:
    person("root", Role.ADMIN)
    other = person("other", Role.ADMIN)
    client = browser(other)
    assert client.get("/api/v1/audit/").status_code == 200
    services.update_user(other.pk, {"role": "viewer"}, actor=TESTER)
    with judging():
        assert client.get("/api/v1/audit/").status_code == 403
    assert client.get("/api/v1/teams/").status_code == 200


def test_an_open_session_alone_makes_no_keys_and_no_administrators(known: dict[str, str]) -> None:
    admin = person("root", Role.ADMIN)
    client = browser(admin, proved=False)
    asked = {
        "POST /api/v1/tokens/": {"name": "n", "scopes": ["read"]},
        "POST /api/v1/users/": {"username": "eve", "role": "admin"},
        f"PATCH /api/v1/users/{known['user_id']}/": {"role": "admin"},
        f"PUT /api/v1/teams/{TEAM}/members/": {"members": ["root"]},
    }
    for text, body in asked.items():
        method, where = text.split()
        for query in ("", "?dry_run=true"):
            answer = getattr(client, method.lower())(where + query, body)
            with judging():
                assert (answer.status_code, answer.json()["code"]) == (403, "access.reauthenticate"), text
        again = getattr(browser(admin), method.lower())(where, body)
        assert again.status_code in (200, 201), f"{text}: {again.content!r}"
