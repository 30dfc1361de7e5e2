"""Registered databases: register, test, change, delete; what is refused, and what is never shown."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from console.accounts.roles import Role
from console.outbox.models import PASSWORDS, OutboxDatabase
from metaserver import queries
from tests.support.console.business import Business, content
from tests.support.console.people import browser, person

PATH = "/api/v1/outbox/databases/"


def registered(client: APIClient, business: Business, **others: Any) -> str:
    answer = client.post(PATH, business.values(**others))
    assert answer.status_code == 201, answer.content
    return str(answer.json()["target"])


def test_a_database_is_registered_and_its_numbers_are_unknown_until_they_are_measured(
    admin: APIClient, business: Business
) -> None:
    where = f"{PATH}{registered(admin, business)}/"
    found = admin.get(where).json()
    assert found["unknown"] == "not_measured"
    assert [found[name] for name in ("pending", "failed", "oldest_seconds", "leader", "measured_at")] == [None] * 5
    assert found["table"] == "qmq_msg_queue"
    assert found["port"] == business.address.port
    assert admin.get(PATH).json()["results"] == [found]


def test_rows_are_shown_resent_and_discarded(admin: APIClient, business: Business) -> None:
    where = f"{PATH}{registered(admin, business)}/"
    business.insert(content(message_id="a"), content(message_id="b"), status=-100, errors=3)  # type: ignore[arg-type]
    business.insert("{}", status=-2)  # type: ignore[arg-type]
    found = admin.get(f"{where}rows/").json()
    assert [row["message_id"] for row in found["results"]] == ["a", "b", None]
    assert [row["status"] for row in found["results"]] == ["refused", "refused", "invalid"]
