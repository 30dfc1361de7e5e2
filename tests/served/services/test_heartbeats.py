"""Heartbeat expiry judges nobody while it can't know (F24); what is old goes, so much at a time."""

import time
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.utils import timezone

from console.alerts.models import Alert, AlertState, Silence
from console.jobs import cleanups, heartbeats
from console.jobs.jobs import Context
from console.models import IdempotencyKey
from metaserver import queries
from metaserver.choices import GroupState
from metaserver.memory.live_groups import offline_seconds
from metaserver.models import BrokerGroup, ClientSeen, MetaserverBeat, Node
from metaserver.services import broker_groups as service
from metaserver.services.changes import Actor
from metaserver.services.memberships import WHY
from tests.support.console.metadata import audit_rows, broker_group, last_audit

pytestmark = [pytest.mark.django_db, pytest.mark.database]
JOB = Actor("job heartbeats")


def ago(seconds: float) -> Any:
    return timezone.now() - timedelta(seconds=seconds)


def expire() -> str:
    return heartbeats.expire(Context(JOB, time.monotonic() + 10)).text


def beat(name: str = "m1", *, seen: float = 0.5, steady: float = 600.0) -> None:
    """A metaserver that was last heard `seen` seconds ago, steady since `steady` seconds."""
    MetaserverBeat.objects.update_or_create(name=name, defaults={"seen_at": ago(seen), "steady_since": ago(steady)})


def silent(name: str = "g1", seconds: float = 60.0) -> None:
    broker_group(name)
    Node.objects.filter(broker_group__name=name).update(leased_at=ago(seconds))


def states() -> dict[str, str]:
    return dict(BrokerGroup.objects.values_list("name", "state"))


def test_a_silent_group_is_taken_offline_with_the_reason_in_the_audit_log() -> None:
    beat()
    silent("g1")
    silent("g2", 1.0)
    assert expire() == "taken offline: g1"
    assert states() == {"g1": GroupState.OFFLINE, "g2": GroupState.READ_WRITE}
    entry = last_audit()
    assert (entry.action, entry.target, entry.actor) == ("broker_group.expire", "g1", "job heartbeats")
    assert (entry.before, entry.after["state"]) == ({"state": "read_write"}, "offline")
    assert entry.reason.startswith("no heartbeat for 60.")
    assert entry.after[WHY]["code"] == "heartbeats_missing", "for other languages"
    count = len(audit_rows())
    assert expire() == "all groups reachable"
    assert len(audit_rows()) == count, "what is offline is left alone"


def test_a_group_with_several_members_is_taken_offline_later_than_by_metaservers() -> None:
    silent("g1", offline_seconds(2) + 2)
    BrokerGroup.objects.update(members=["g1-node", "g1-b"])
    beat()
    assert expire() == "all groups reachable", (
        "metaservers have announced it, and a heartbeat is stored 2 s later at most"
    )
    Node.objects.update(leased_at=ago(heartbeats.silent_seconds(2) + 1))
    beat(steady=heartbeats.silent_seconds(2) - 1)
    assert expire() == "all groups reachable"
    beat()
    assert expire() == "taken offline: g1"


def test_a_group_whose_master_was_never_heard_is_taken_offline() -> None:
    beat()
    silent("g1")
    BrokerGroup.objects.update(master="gone")
    assert expire() == "taken offline: g1"
    assert last_audit().reason == "no heartbeat"


@pytest.mark.parametrize(
    "beats",
    [
        [],
        [{"seen": queries.METASERVER_FRESH_SECONDS + 1}],
        [{"steady": heartbeats.silent_seconds(1) - 1}],
        [{"seen": 3600.0}, {"steady": 2.0}],
        [{"seen": -3600.0}],
        [{"steady": -3600.0}],
    ],
    ids=[
        "no metaserver",
        "it stopped",
        "it has just come",
        "one gone one new",
        "a clock ahead",
        "steady in the future",
    ],
)
def test_nobody_is_judged_by_who_could_not_hear(beats: list[dict[str, float]]) -> None:
    for number, values in enumerate(beats):
        beat(f"m{number}", **values)
    silent("g1", 3600.0)
    count = len(audit_rows())
    assert "not checked" in expire()
    assert states() == {"g1": GroupState.READ_WRITE}
    assert len(audit_rows()) == count


def test_one_steady_metaserver_is_enough() -> None:
    beat("new", steady=1.0)
    beat("old", steady=heartbeats.silent_seconds(1) + 1)
    beat("dead", seen=3600.0, steady=7200.0)
    silent()
    assert expire() == "taken offline: g1"


def test_a_group_heard_between_the_look_and_the_deed_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    beat()
    silent()
    look = queries.silent_groups

    def heard_meanwhile(*given: Any) -> Any:
        found = look(*given)
        Node.objects.update(leased_at=timezone.now())
        return found

    monkeypatch.setattr(queries, "silent_groups", heard_meanwhile)
    assert expire() == "all groups reachable"
    assert states() == {"g1": GroupState.READ_WRITE}


def test_a_group_is_expired_by_one_of_those_who_try() -> None:
    silent()
    options: dict[str, Any] = {"silent_seconds": 9.0, "actor": JOB, "reason": "r"}
    assert [service.expire_group("g1", **options) for _ in range(2)] == [True, False]
    assert not service.expire_group("none", **options)


def test_a_registration_brings_the_group_back() -> None:
    beat()
    silent()
    expire()
    broker_group("g1")
    assert states() == {"g1": GroupState.READ_WRITE}
    assert expire() == "all groups reachable"


def test_a_beat_is_stored_with_since_when_it_is_steady() -> None:
    now = timezone.now()
    service.save_heartbeat("m1", 30.0, now - timedelta(seconds=1))
    service.save_heartbeat("m1", 31.0, now)
    row = MetaserverBeat.objects.get()
    assert (row.seen_at, (row.seen_at - row.steady_since).total_seconds()) == (now, 31.0)


def test_what_is_old_goes_a_bounded_number_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanups, "ROWS_MAX", 3)
    for number in range(5):
        IdempotencyKey.objects.create(key=f"old{number}", request_digest="d")
        Session.objects.create(session_key=f"old{number}", session_data="", expire_date=ago(1))
        ClientSeen.objects.create(
            key=f"old{number}", subject="s", client_type=1, client_id="c", last_seen_at=ago(8 * 86400)
        )
    IdempotencyKey.objects.update(created_at=ago(25 * 3600))
    IdempotencyKey.objects.create(key="new", request_digest="d")
    Session.objects.create(session_key="new", session_data="", expire_date=ago(-60))
    ClientSeen.objects.create(key="new", subject="s", client_type=1, client_id="c", last_seen_at=ago(6 * 86400))
    old = {
        "rule_name": "r",
        "target": "s/g",
        "threshold": 1,
        "since": ago(0),
        "value": 2,
        "last_seen_at": ago(0),
        "place": 0,
    }
    for days in (89, 91):
        Alert.objects.create(state=AlertState.RESOLVED, resolved_at=ago(days * 86400), **old)
        Silence.objects.create(starts_at=ago(92 * 86400), ends_at=ago(days * 86400), reason="r", created_by="a")
    context = Context(Actor("job cleanups"), time.monotonic() + 10)
    texts = [cleanups.clean_up(context).text for _ in range(3)]
    assert [text.split(",")[0] for text in texts] == [
        "deleted 3 idempotency keys",
        "deleted 2 idempotency keys",
        "deleted 0 idempotency keys",
    ]
    assert texts[0] == "deleted 3 idempotency keys, 3 sessions, 3 clients, 2 alerts and silences, 0 events, 0 summaries"
    assert IdempotencyKey.objects.get().key == "new"
    assert Session.objects.get().session_key == "new"
    assert ClientSeen.objects.get().key == "new"
    assert (Alert.objects.count(), Silence.objects.count()) == (1, 1)
