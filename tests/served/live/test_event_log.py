"""Events of the live feed are stored for the feed of events, also after the database failed, and only for some time."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from console.collector import event_log
from console.collector.event_log import PENDING_MAX, EventLog, stored_event
from console.jobs import cleanups
from console.models import SystemEvent
from console.snapshot.state import empty, events_between
from console.times import rfc3339
from qmq.protocol.reasons import Code, Reason

NODES = {"g1-a": {"broker_group": "g1", "state_reason": "the disk is full", "state_why": {"code": "disk_full"}}}
AT = rfc3339(1_700_000_000_000)


def event(
    number: int, kind: str = "node.unreachable", after: Any = "connection refused", **more: Any
) -> dict[str, Any]:
    return {"id": str(number), "at": AT, "kind": kind, "target": "g1-a", "before": None, "after": after, **more}


def stored(kind: str, before: Any, after: Any, target: str = "g1-a") -> tuple[Any, ...] | None:
    row = stored_event(event(1, kind, after, before=before, target=target), NODES)
    return None if row is None else (row.kind, row.severity, row.before, row.after, row.reason, row.broker_group)


def test_what_nodes_and_jobs_did_is_stored_with_the_cause() -> None:
    assert stored("node.unreachable", None, "no response") == ("unreachable", "warning", "", "", "no response", "g1")
    assert stored("node.reachable", "no response", None) == ("reachable", "info", "", "", "", "g1")
    assert stored("node.restarted", "b1", "b2") == ("restart", "info", "b1", "b2", "", "g1")
    refused = {"g1-a": {**NODES["g1-a"], "why": Reason.of(Code.CONNECTION_REFUSED).as_json()}}
    row = stored_event(event(1), refused)
    assert row is not None
    assert row.why == refused["g1-a"]["why"], "for other languages"
    full = ("state", "warning", "read_write", "read_only", "the disk is full", "g1")
    assert stored("node.state", "read_write", "read_only") == full
    assert stored("job.late", False, True, "moves") == ("job", "warning", "", "late", "", "")
    assert stored("job.late", True, False, "moves") == ("job", "info", "late", "", "", "")


@pytest.mark.parametrize("kind", ["broker_group.master", "broker_group.state", "broker_group.operator_state"])
def test_what_the_audit_log_has_is_not_stored_twice(kind: str) -> None:
    assert stored(kind, "a", "b") is None
    assert stored("node.state", "offline", "read_write") is None, "a change of role"


def test_a_restart_is_another_boot_id_and_not_the_first_one() -> None:
    def state(**node: Any) -> Any:
        entry = {"state": "read_write", "is_measured": True, "is_silent": False, "reason": None, **node}
        return {**empty(), "nodes": {"g1-a": entry}}

    found = events_between(state(boot_id="b1"), state(boot_id="b2"))
    assert found == [{"kind": "node.restarted", "target": "g1-a", "before": "b1", "after": "b2"}]
    for before, after in (({"boot_id": ""}, "b1"), ({"boot_id": "b1"}, ""), ({"boot_id": "b1"}, "b1"), ({}, "b1")):
        assert events_between(state(**before), state(boot_id=after)) == []


async def test_events_wait_for_the_database_and_of_too_many_the_oldest_are_dropped(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    written: list[int] = []
    is_away = True

    def insert(rows: list[SystemEvent]) -> None:
        if is_away:
            raise OperationalError("away")
        written.extend(row.pk for row in rows)

    monkeypatch.setattr(event_log, "_insert", insert)
    log = EventLog()
    log.add([event(1), event(2)], NODES)
    with pytest.raises(OperationalError):
        await log.store()
    log.add([event(number) for number in range(3, PENDING_MAX + 4)], NODES)
    assert "3 events are not stored" in caplog.text
    is_away = False
    await log.store()
    assert written == list(range(4, PENDING_MAX + 4))


@pytest.mark.database
@pytest.mark.django_db
def test_an_event_that_was_stored_already_is_stored_once() -> None:
    row = stored_event(event(7, target="g1-\x00a"), NODES)
    assert row is not None
    event_log._insert([row])
    event_log._insert([row])
    assert [one.target for one in SystemEvent.objects.all()] == ["g1-\ufffda"]


@pytest.mark.database
@pytest.mark.django_db
def test_old_events_and_those_beyond_the_limit_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = timezone.now()
    for number, age in enumerate((timedelta(days=91), timedelta(days=3), timedelta(days=2), timedelta(days=1))):
        SystemEvent.objects.create(id=number, at=now - age, kind="restart", severity="info", target="n")
    assert cleanups._forget_events(now) == 1
    monkeypatch.setattr(cleanups, "EVENTS_MAX", 2)
    assert cleanups._forget_events(now) == 1
    assert list(SystemEvent.objects.order_by("id").values_list("id", flat=True)) == [2, 3]
