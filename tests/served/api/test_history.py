"""/history/ as the API answers it; what is kept: tests/served/live/test_history.py."""

import time
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from rest_framework.test import APIClient

from console.snapshot.history import STEPS, HistoryWriter
from console.snapshot.state import empty
from tests.support.console.people import browser, person
from tests.support.servers.services import Server

pytestmark = pytest.mark.django_db
WHERE = "/api/v1/history/"


@pytest.fixture
def viewer(db: None) -> APIClient:
    return browser(person("vera"))


def test_each_kind_has_its_columns(viewer: APIClient, redis_server: Server, settings: Any) -> None:
    settings.REDIS_URL = redis_server.url
    node = {"broker_group": "g1", "kind": "broker", "is_master": True, "disk_free_bytes": 40, "disk_total_bytes": 100}
    group = {"backlog": 3, "in_flight": 2, "time_lag_seconds": 1.5, "pull_rate": 1.0, "ack_rate": None}
    state = empty() | {"subjects": {"o": {"send_rate": 7.0}}, "groups": {"o\nb": group}, "nodes": {"g1-a": node}}

    async def write() -> None:
        writer = HistoryWriter(redis_server.url)
        await writer.note(state, int((time.time() - 30) * 1000))
        await writer.close()

    async_to_sync(write)()
    for query, field, value in (
        ({"subject": "o"}, "send_rate", 7), ({"subject": "o", "group": "b"}, "lag", 5), ({"node": "g1-a"}, "disk_used_bytes", 60),
        ({"broker_group": "g1"}, "disk_used_bytes", 60), ({}, "send_rate", 7),
    ):  # fmt: skip
        found = viewer.get(WHERE, query).json()
        assert (found["step_seconds"], found["reason"]) == (10, None), query
        assert {len(column) for column in (found["at"], *found["fields"].values())} == {STEPS}
        assert [number for number in found["fields"][field] if number is not None] == [value], query
    found = viewer.get(WHERE, {"subject": "o", "group": "b"}).json()
    assert set(found["fields"]["ack_rate"]) == {None}


def test_with_redis_away_it_answers_that_nothing_is_known(viewer: APIClient, settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    answer = viewer.get(WHERE)
    assert answer.status_code == 200
    assert answer.json()["reason"].startswith("Redis is not responding")
    assert set(answer.json()["fields"]["lag"]) == {None}


@pytest.mark.parametrize(
    "query", ["group=b", "subject=o&node=n", "node=n&broker_group=g", "subject=a%0Ab", "subject=a%00", "subject=" + "x" * 301]
)  # fmt: skip
def test_what_names_no_series_is_refused(viewer: APIClient, query: str) -> None:
    assert viewer.get(f"{WHERE}?{query}").json()["code"] == "request.invalid"
