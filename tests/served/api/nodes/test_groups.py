"""Consumer groups and nodes over REST, asked of real nodes: progress, members, resets, forgetting, a node away."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError
from django.utils import timezone

from metaserver import queries
from metaserver.models import ConsumerGroup
from metaserver.services import audit
from metaserver.services import groups as service
from qmq import Consumer
from qmq.errors import ConnectionLost
from qmq.node_admin import NodeAdmin
from tests.served.api.nodes.changes import when_nodes_change
from tests.served.api.nodes.crew import Crew
from tests.support.console.metadata import ACTOR, audit_rows, everything
from tests.support.drivers.in_process import now_ms
from tests.support.servers.threaded_system import ThreadedSystem
from tests.support.waiting import ASK_SECONDS, eventually

BILLING = "/api/v1/consumer-groups/orders/billing/"
RESET = f"{BILLING}reset/"


@pytest.fixture
def billing(cluster: ThreadedSystem, crew: Crew) -> ThreadedSystem:
    """Group billing read and acknowledged the ten messages of orders, five on each broker group."""
    cluster.consume("orders", "billing", 10)
    service.create_group("orders", "billing", {}, actor=ACTOR)
    return cluster


def positions(crew: Crew) -> dict[str, int | None]:
    page = crew.own.get(BILLING).json()
    return {
        place["broker_group"]: None if place["next_sequence"] is None else int(place["next_sequence"])
        for place in page["progress"]
    }


def ends(crew: Crew) -> dict[str, int]:
    return {place["broker_group"]: int(place["end_sequence"]) for place in crew.own.get(BILLING).json()["progress"]}


def test_progress_and_members_are_what_the_nodes_say_now(billing: ThreadedSystem, crew: Crew) -> None:
    billing.send("orders", 4, first=10)
    page = crew.viewer.get(BILLING).json()
    assert (page["lag"], page["unknown_reason"], page["may_change"]) == (4, None, False)
    assert page["time_lag_seconds"] >= 0
    assert {place["broker_group"] for place in page["progress"]} == {"g1", "g2"}
    assert sum(place["backlog"] for place in page["progress"]) == 4
    assert all(isinstance(place["next_sequence"], str) for place in page["progress"])

    async def hold() -> Any:
        consumer = Consumer(billing.meta_url, "orders", "billing")
        await consumer.start()
        return consumer, await consumer.pull(1, timeout=10)

    consumer, got = billing.do(hold)
    try:
        assert got
        page = eventually(
            lambda: (
                (found := crew.own.get(BILLING).json())
                and any(member["online"] and member["address"] for member in found["members"])
                and found
            ),
            every_s=ASK_SECONDS,
        )
        member = next(item for item in page["members"] if item["address"])
        assert member["address"].startswith("127.0.0.1")
        assert 0 <= member["last_seen_seconds"] < 60
        assert member["broker_group"] in ("g1", "g2")
        assert not member["is_paused"]
        held = [item for item in page["members"] if item["in_flight"]]
        for item in held:
            assert sum(int(end) - int(begin) for begin, end in item["in_flight_ranges"]) == item["in_flight"]
            assert int(item["pulled"]) - int(item["acked"]) == item["in_flight"]
        assert page["lag"] == 4, "what is in flight is not done"
        service.set_paused("orders", "billing", True, consumer_id=member["consumer_id"], actor=ACTOR)
        shown = {item["consumer_id"]: item["is_paused"] for item in crew.own.get(BILLING).json()["members"]}
        assert shown[member["consumer_id"]] is True
        refused = crew.own.delete(BILLING, {})
        assert (refused.status_code, refused.json()["code"]) == (409, "consumer_group.in_use")
    finally:
        billing.do(consumer.close)


def test_a_reset_to_the_beginning_says_what_it_repeats_and_does_it(billing: ThreadedSystem, crew: Crew) -> None:
    before, count = positions(crew), len(audit_rows())
    held = ends(crew)
    plan = crew.own.post(f"{RESET}?dry_run=true", {"to": "earliest"}).json()
    assert (plan["dry_run"], plan["is_change"]) == (True, True)
    assert {row["broker_group"]: (row["repeated"], row["skipped"]) for row in plan["broker_groups"]} == {
        name: (end, 0) for name, end in held.items()
    }
    assert (positions(crew), len(audit_rows())) == (before, count), "a dry run moves and audits nothing"
    done = crew.own.post(RESET, {"to": "earliest", "reason": "wrong rates"}).json()
    assert (done["before"], done["after"]) == (plan["before"], plan["after"])
    assert positions(crew) == {"g1": 0, "g2": 0}
    for action, entry in zip(("consumer_group.reset", "consumer_group.reset_done"), audit_rows()[-2:], strict=True):
        was = {name: str(value) for name, value in before.items()}
        assert entry == (action, "orders/billing", was, {"g1": "0", "g2": "0"})
    assert {item.message_id for item in billing.consume("orders", "billing", 10)} == {f"m{n}" for n in range(10)}


def test_a_reset_to_the_end_says_what_it_skips(billing: ThreadedSystem, crew: Crew) -> None:
    billing.send("orders", 6, first=10)
    done = crew.own.post(RESET, {"to": "latest"}).json()
    assert sum(row["skipped"] for row in done["broker_groups"]) == 6
    assert positions(crew) == ends(crew)
    assert crew.own.get(BILLING).json()["lag"] == 0


def test_a_reset_to_a_time_and_to_a_sequence(billing: ThreadedSystem, crew: Crew) -> None:
    moment = now_ms() + 1
    eventually(lambda: now_ms() > moment)
    before = positions(crew)
    billing.send("orders", 4, first=10)
    billing.consume("orders", "billing", 4)
    at = datetime.fromtimestamp(moment / 1000, UTC).isoformat()
    assert crew.own.post(RESET, {"to": "time", "time": at}).status_code == 200
    assert positions(crew) == before
    done = crew.own.post(RESET, {"to": "sequence", "sequence": "2", "broker_group": "g1"}).json()
    assert [row["broker_group"] for row in done["broker_groups"]] == ["g1"]
    assert positions(crew) == {**before, "g1": 2}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 400, "request.invalid"), ({"to": "yesterday"}, 400, "request.invalid"), ({"to": "time"}, 400, "request.invalid"),
        ({"to": "time", "time": "soon"}, 400, "request.invalid"), ({"to": "sequence"}, 400, "request.invalid"),
        ({"to": "sequence", "sequence": "1"}, 400, "request.invalid"),
        ({"to": "sequence", "sequence": "-1", "broker_group": "g1"}, 400, "request.invalid"),
        ({"to": "sequence", "sequence": "9" * 19, "broker_group": "g1"}, 400, "request.invalid"),
        ({"to": "earliest", "broker_group": "none"}, 404, "broker_group.unknown"),
    ],
)  # fmt: skip
def test_a_reset_that_makes_no_sense(crew_without_nodes: Crew, body: dict[str, Any], status: int, code: str) -> None:
    answer = crew_without_nodes.own.post(RESET, body)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.content


def test_who_read_an_old_version_resets_and_forgets_nothing(billing: ThreadedSystem, crew: Crew) -> None:
    before, there = positions(crew), everything()
    for call in (
        lambda: crew.own.post(RESET, {"to": "earliest"}, HTTP_IF_MATCH='"v9"'),
        lambda: crew.own.delete(BILLING, {"force": True}, HTTP_IF_MATCH='"v9"'),
    ):
        answer = call()
        assert (answer.status_code, answer.json()["code"]) == (412, "change.stale")
    assert (positions(crew), everything()) == (before, there)
    assert crew.other.post(RESET, {"to": "earliest"}).status_code == 403
    assert crew.viewer.delete(BILLING, {}).status_code == 403
    unknown = crew.own.post("/api/v1/consumer-groups/orders/none/reset/", {"to": "latest"})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "consumer_group.no_position")
    assert positions(crew) == before


def test_with_a_node_away_nothing_is_changed_and_what_is_not_known_is_null(billing: ThreadedSystem, crew: Crew) -> None:
    before = positions(crew)
    billing.stop_broker("g2")
    there = everything()
    page = crew.own.get(BILLING).json()
    away = next(place for place in page["progress"] if place["broker_group"] == "g2")
    assert (away["next_sequence"], away["lag"], page["lag"], page["time_lag_seconds"]) == (None, None, None, None)
    assert away["reason"]
    assert page["unknown_reason"].startswith("g2: ")
    for answer in (crew.own.post(RESET, {"to": "earliest"}), crew.own.delete(BILLING, {"force": True})):
        assert (answer.status_code, answer.json()["code"]) == (503, "broker_group.away")
    assert positions(crew) == {**before, "g2": None}
    assert everything() == there
    one = crew.own.post(RESET, {"to": "earliest", "broker_group": "g1"})
    assert one.status_code == 200
    assert positions(crew)["g1"] == 0
    node = crew.own.get(f"/api/v1/nodes/{queries.masters()['g2'].node_id}/").json()
    assert node["stats"] is None
    assert node["unknown_reason"]


def test_a_group_is_forgotten_on_every_node_and_begins_anew(billing: ThreadedSystem, crew: Crew) -> None:
    there = everything()
    planned = crew.own.delete(f"{BILLING}?dry_run=true", {"force": True})
    assert (planned.status_code, everything()) == (200, there)
    assert set(positions(crew).values()) != {None}
    done = crew.own.delete(BILLING, {"force": True, "reason": "renamed"})
    assert done.status_code == 200, done.content
    assert [entry[0] for entry in audit_rows()[-2:]] == ["consumer_group.forget", "consumer_group.delete"]
    assert crew.own.get(BILLING).status_code == 404
    service.create_group("orders", "billing", {}, actor=ACTOR)
    page = crew.own.get(BILLING).json()
    assert {place["next_sequence"] for place in page["progress"]} == {None}
    assert len(billing.consume("orders", "billing", 10)) == 10, "the messages stayed"


def test_a_change_in_between_is_refused_while_a_group_is_forgotten(
    billing: ThreadedSystem, crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = crew.own.get(BILLING).headers["ETag"]
    answers: list[Any] = []

    def change() -> None:
        answers.append(crew.own.patch(BILLING, {"description": "new"}))
        answers.append(crew.own.post(f"{BILLING}pause/", {}))
        answers.append(crew.own.post(RESET, {"to": "earliest"}))
        answers.append(crew.own.delete(BILLING, {"force": True}))

    when_nodes_change(monkeypatch, "forget", change)
    done = crew.own.delete(BILLING, {"force": True}, HTTP_IF_MATCH=version)
    assert done.status_code == 200, "progress is gone, so the row must go as well"
    assert {(a.status_code, a.json()["code"]) for a in answers} == {(409, "consumer_group.busy")}
    assert crew.own.get(BILLING).status_code == 404


def test_a_group_is_not_forgotten_while_it_is_reset(
    billing: ThreadedSystem, crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[Any] = []
    when_nodes_change(monkeypatch, "reset", lambda: answers.append(crew.own.delete(BILLING, {"force": True})))
    assert crew.own.post(RESET, {"to": "earliest"}).status_code == 200
    assert {(a.status_code, a.json()["code"]) for a in answers} == {(409, "consumer_group.busy")}
    assert crew.own.patch(BILLING, {"description": "new"}).status_code == 200, "afterwards it can be changed again"


@pytest.mark.parametrize("name", ["forget", "reset"])
def test_nothing_is_changed_on_nodes_without_an_audit_entry(
    billing: ThreadedSystem, crew: Crew, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    before, there = positions(crew), everything()
    asked = when_nodes_change(monkeypatch, name, lambda: None)

    def unwritable(*_: Any, **__: Any) -> None:
        raise DatabaseError("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(audit, "record", unwritable)
        call = crew.own.delete if name == "forget" else crew.own.post
        path, body = (BILLING, {"force": True}) if name == "forget" else (RESET, {"to": "earliest"})
        assert call(path, body).status_code == 503
    assert (asked, positions(crew), everything()) == ([], before, there)


@pytest.mark.parametrize("name", ["forget", "reset"])
def test_a_node_that_fails_is_in_the_audit_log_and_the_change_can_be_repeated(
    billing: ThreadedSystem, crew: Crew, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    failing = queries.masters()["g2"].admin_address
    original = getattr(NodeAdmin, name)

    async def call(node: NodeAdmin, *args: Any, **options: Any) -> Any:
        if node.admin_address == failing:
            raise ConnectionLost("no answer")
        return await original(node, *args, **options)

    request = crew.own.delete if name == "forget" else crew.own.post
    path, body = (BILLING, {"force": True}) if name == "forget" else (RESET, {"to": "earliest"})
    with monkeypatch.context() as broken:
        broken.setattr(NodeAdmin, name, call)
        answer = request(path, body)
    assert (answer.status_code, answer.json()["code"]) == (409, f"consumer_group.{name}_in_part")
    action, _, _, after = audit_rows()[-1]
    assert action == f"consumer_group.{name}_failed"
    assert (list(after["done"]), list(after["failed"])) == (["g1"], ["g2"])
    assert request(path, body).status_code == 200


def test_a_mark_left_by_a_process_that_died_expires(billing: ThreadedSystem, crew: Crew) -> None:
    since = timezone.now()
    rows = ConsumerGroup.objects.filter(name="billing")
    rows.update(progress_changing_since=since)
    assert crew.own.patch(BILLING, {"description": "new"}).status_code == 409
    rows.update(progress_changing_since=since - timedelta(seconds=service.PROGRESS_CHANGE_SECONDS_MAX + 1))
    assert crew.own.patch(BILLING, {"description": "new"}).status_code == 200


def test_nodes_show_their_own_numbers(cluster: ThreadedSystem, crew: Crew) -> None:
    rows = crew.viewer.get("/api/v1/nodes/").json()["results"]
    assert {(row["broker_group"], row["kind"], row["is_master"]) for row in rows} == {
        ("g1", "broker", True), ("g2", "broker", True), ("d1", "delay", True),
    }  # fmt: skip
    for row in rows:
        page = crew.viewer.get(f"/api/v1/nodes/{row['node_id']}/").json()
        assert page["unknown_reason"] is None
        assert page["stats"]
        assert "subjects" not in page["stats"]


def test_a_group_without_a_route_has_no_progress(cluster: ThreadedSystem, crew: Crew) -> None:
    from metaserver.services import subjects

    subjects.create_subject("unserved", {}, actor=ACTOR)
    service.create_group("unserved", "g", {}, actor=ACTOR)
    path = "/api/v1/consumer-groups/unserved/g/"
    page = crew.admin.get(path).json()
    assert (page["progress"], page["members"], page["lag"]) == ([], [], 0)
    answer = crew.admin.post(f"{path}reset/", {"to": "latest"})
    assert (answer.status_code, answer.json()["code"]) == (404, "route.unknown")
    assert crew.admin.delete(path, {}).status_code == 200
