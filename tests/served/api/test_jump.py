"""/jump/: what is called like a text, the best first; who may find what; what it costs with much to look through."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.test import APIClient

from console.accounts.roles import Role
from console.cluster import limits
from console.cluster.delayed import reading
from console.models import DeadLetterDecision
from console.reports import search
from metaserver.services import groups, subjects, teams
from qmq.client.message import new_message_id
from qmq.errors import CallTimeout
from tests.support.console.large import fill
from tests.support.console.metadata import ACTOR, broker_group
from tests.support.console.people import browser, person

pytestmark = pytest.mark.django_db
WHERE = "/api/v1/jump/"


@pytest.fixture
def admin(db: None) -> APIClient:
    for name in ("orders", "orders.paid", "old.orders", "Border"):
        subjects.create_subject(name, {"description": f"about {name}"}, actor=ACTOR)
    groups.create_group("orders", "order-mail", {}, actor=ACTOR)
    groups.create_group("orders.paid", "billing", {}, actor=ACTOR)
    teams.create_team("orderers", actor=ACTOR)
    broker_group("g1")
    person("orderly")
    return browser(person("root", Role.ADMIN))


def found(client: APIClient, text: str) -> list[tuple[str, str]]:
    answer = client.get(WHERE, {"q": text})
    assert answer.status_code == 200, answer.content
    return [(row["kind"], row["name"]) for row in answer.json()["results"]]


@pytest.mark.database
def test_the_best_comes_first(admin: APIClient) -> None:
    assert found(admin, "orders") == [("subject", "orders"), ("subject", "orders.paid"), ("subject", "old.orders")]
    assert found(admin, "ORDER") == [
        ("subject", "orders"), ("user", "orderly"), ("team", "orderers"), ("consumer_group", "order-mail"),
        ("subject", "orders.paid"), ("subject", "Border"), ("subject", "old.orders"),
    ]  # fmt: skip
    assert found(admin, "g1") == [("broker_group", "g1"), ("node", "g1-node")]
    assert found(admin, "nothing like it") == []
    assert found(admin, "paid orders") == [("subject", "orders.paid")]


@pytest.mark.database
def test_names_are_found_with_typing_errors_where_none_contains_the_text(admin: APIClient) -> None:
    assert found(admin, "odrers") == [("subject", "orders"), ("subject", "old.orders"), ("subject", "orders.paid")]
    assert found(admin, "orders piad") == [("subject", "orders.paid")]
    assert found(admin, "orders.paid/biling") == [("consumer_group", "billing")]
    assert found(admin, "oredrly") == [("user", "orderly")]
    assert found(browser(person("vera", Role.VIEWER)), "oredrly") == []
    assert ("subject", "Border") not in found(admin, "orders"), "only where nothing contains the text"
    assert found(admin, "odr") == found(admin, "oxxers") == []


@pytest.mark.database
def test_a_group_is_found_by_its_subject_too(admin: APIClient) -> None:
    assert found(admin, "orders.paid/bill") == [("consumer_group", "billing")]
    assert found(admin, "orders/bill") == []
    (row,) = admin.get(WHERE, {"q": "billing"}).json()["results"]
    assert row["subject"] == "orders.paid"


def test_accounts_are_for_those_who_may_see_them(admin: APIClient) -> None:
    assert ("user", "orderly") in found(admin, "orderly")
    for role in (Role.VIEWER, Role.OPERATOR):
        assert found(browser(person(f"a-{role}", role)), "orderly") == []
    assert APIClient().get(WHERE, {"q": "orders"}).status_code == 401


@pytest.mark.parametrize("text", ["", "   ", "x" * 201, "a\x00b"])
def test_what_can_not_be_looked_for_is_refused(admin: APIClient, text: str) -> None:
    assert admin.get(WHERE, {"q": text}).json()["code"] == "request.invalid"


@pytest.mark.database
def test_signs_mean_themselves(admin: APIClient) -> None:
    for text in ("_", '"', "'", "\\", "/", "a/", "o%s"):
        assert found(admin, text) == []
    assert [kind for kind, _ in found(admin, "%")] == ["alert_rule"], "one of those that are there from the start"


def test_a_message_id_finds_its_letter_and_says_whom_it_could_not_ask(
    admin: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(target: Any, *, seconds: float) -> Any:
        assert seconds == limits.JUMP_SECONDS
        raise CallTimeout("nobody answers", code="node.timeout")

    monkeypatch.setattr(reading, "found", away)
    message_id = new_message_id()
    place = {"subject": "orders", "group": "billing", "broker_group": "g1", "sequence": 1 << 60}
    DeadLetterDecision.objects.create(message_id=message_id, state="deleted", by="root", at=timezone.now(), **place)
    answer = admin.get(WHERE, {"q": message_id}).json()
    assert answer["results"] == [
        {
            "kind": "dead_letter", "name": message_id, "subject": "orders", "broker_group": "g1", "sequence": str(1 << 60),
            "text": "billing",
        }
    ]  # fmt: skip
    assert answer["unreachable"] == {"delay groups": "nobody answers"}


@pytest.mark.database
def test_one_query_a_kind_and_no_more_than_twenty_however_much_there_is(db: None) -> None:
    user = person("root", Role.ADMIN)
    fill(user)
    client = browser(user)
    client.get(WHERE, {"q": "a"})
    texts = {"group": 1, "subject0": 1, "e": 1, "subject0500/group": 1, "zzz": 1, "sbject05": 2}
    for text, searches in texts.items():
        with CaptureQueriesContext(connection) as captured:
            answer = client.get(WHERE, {"q": text})
        assert len(answer.json()["results"]) <= search.FOUND_MAX
        assert len(captured) <= 7 * searches + 5, "seven kinds, and who asks"
