"""Changes on nodes are refused when their subject was handed to another team after the request was checked first (S13)."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from metaserver import queries
from metaserver.models import Subject, Team
from metaserver.services import groups
from metaserver.services.changes import lock
from qmq import Producer
from tests.served.api.nodes.crew import Crew
from tests.support.console.people import TESTER
from tests.support.servers.threaded_system import ThreadedSystem

API = "/api/v1"
DUE = datetime.now(UTC) + timedelta(hours=5)


def _owner_is(team: str) -> None:
    Subject.objects.filter(name="orders").update(owner=Team.objects.get(name=team))


def _asked_before(real: Callable[..., Any]) -> Callable[..., Any]:
    """Answer who owns a subject, and hand it over right after."""

    def ask(subjects: Any) -> Any:
        answer = real(subjects)
        _owner_is("else")
        return answer

    return ask


def _locked_after(real: Callable[..., Any]) -> Callable[..., Any]:
    """Hand the subject over just before its row is locked: the only time that some requests ask."""

    def locked(rows: Any) -> Any:
        _owner_is("else")
        return real(rows)

    return locked


def test_nothing_is_changed_on_nodes(cluster: ThreadedSystem, crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.make_dead("orders", "dead", 2)
    cluster.consume("orders", "g", 2)
    groups.create_group("orders", "g", {}, actor=TESTER)

    async def delay() -> None:
        async with Producer(cluster.meta_url, app="test") as producer:
            await producer.send("orders", {"a": "b"}, due=DUE, message_id="d0")

    cluster.do(delay)
    group, letters = f"{API}/consumer-groups/orders/g/", f"{API}/dead-letters/orders/dead/"
    delayed = f"{API}/delayed-messages/"
    calls: list[tuple[str, str, dict[str, Any]]] = [
        ("post", f"{API}/subjects/orders/messages/", {"properties": {"a": "b"}}),
        ("post", f"{group}reset/", {"to": "earliest"}),
        ("delete", group, {"force": True}),
        ("post", f"{letters}replay/", {"all": True, "expected": 2}),
        ("post", f"{letters}delete/", {"all": True, "expected": 2}),
        ("post", f"{delayed}cancel/", {"message_id": "d0"}),
        ("post", f"{delayed}reschedule/", {"message_id": "d0", "delay_seconds": 60}),
        ("post", f"{delayed}deliver/", {"message_id": "d0"}),
        ("post", f"{delayed}bulk-cancel/", {"subject": "orders", "all": True, "expected": 1}),
    ]
    before = queries.audit_entries().count()
    for method, path, body in calls:
        with monkeypatch.context() as patch:
            patch.setattr(queries, "owner_of", _asked_before(queries.owner_of))
            patch.setattr("metaserver.services.resources.lock", _locked_after(lock))
            answer = getattr(crew.own, method)(path, body)
        assert (answer.status_code, answer.json()["code"]) == (403, "access.denied"), (path, answer.json())
        _owner_is("sales")
    assert queries.audit_entries().count() == before
    for method, path, body in calls:
        assert getattr(crew.own, method)(path + "?dry_run=true", body).status_code == 200, path
