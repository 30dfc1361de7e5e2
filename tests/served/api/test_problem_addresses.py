"""Problems name no address of a node, a metaserver or a database; the log does, under the request's id."""

import logging

import pytest
from rest_framework.test import APIClient

from api.problems import without_addresses
from console.accounts.roles import Role
from metaserver.services import groups
from tests.support.console.metadata import ACTOR, broker_group, route
from tests.support.console.people import browser, person

NODE = "127.0.0.1:1"


@pytest.fixture
def admin(db: None) -> APIClient:
    broker_group("g1", admin_address=NODE)
    route("orders", "g1")
    groups.create_group("orders", "billing", {}, actor=ACTOR)
    return browser(person("root", Role.ADMIN))


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("post", "consumer-groups/orders/billing/reset/", {"to": "earliest"}),
        ("delete", "consumer-groups/orders/billing/", {"force": True}),
        ("get", "subjects/orders/messages/g1/0/", None),
        ("get", "delayed-messages/calendar/?subject=orders", None),
    ],
)
def test_a_503_of_a_node_or_metaserver_names_no_address(
    admin: APIClient, settings: object, caplog: pytest.LogCaptureFixture, method: str, path: str, body: object
) -> None:
    settings.META_URL = "http://127.0.0.1:1/meta/address"  # type: ignore[attr-defined]
    with caplog.at_level(logging.WARNING, "qmq.api"):
        answer = getattr(admin, method)(f"/api/v1/{path}", body)
    assert answer.status_code == 503, answer.content
    assert "127.0.0.1" not in answer.json()["detail"]
    assert answer.json()["detail"].startswith(("g1", "Broker group g1", "(address in the log)"))
    if "(address in the log)" in answer.json()["detail"]:
        assert any("127.0.0.1:1" in line for line in caplog.messages)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "g1 can't be asked: http://127.0.0.1:35091/subjects/a can't be reached: [Errno 111] Connect call failed"
            " ('127.0.0.1', 35091)",
            "g1 can't be asked: (address in the log) can't be reached: [Errno 111] Connect call failed (address in the log)",
        ),
        ("http://[::1]:8080/x: no", "(address in the log): no"),
        ("connect failed ('::1', 35091, 0, 0)", "connect failed (address in the log)"),
        ("broker-1.internal:20881 closed", "(address in the log) closed"),
        ("10.0.0.7:20881, 10.0.0.8:20881", "(address in the log), (address in the log)"),
        ("[fe80::1]:80 is away", "(address in the log) is away"),
        ("nothing before 2026-01-31T12:00:00Z, or 12:30:45", "nothing before 2026-01-31T12:00:00Z, or 12:30:45"),
        ("subject orders:eu has 5 messages to go", "subject orders:eu has 5 messages to go"),
    ],
)
def test_what_counts_as_an_address(text: str, expected: str) -> None:
    assert without_addresses(text) == expected
