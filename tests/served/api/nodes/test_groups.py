"""Consumer groups and nodes over REST, asked of real nodes: progress, members, resets, forgetting, a node away."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError
from django.utils import timezone

from api.serializers.groups import POSITIONS_MAX
from api.views.groups import UNDO_TIME
from console.reports import group_diagnosis, overview
from console.snapshot.history import History
from metaserver import queries
from metaserver.models import AuditEntry, ConsumerGroup
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

LIST = "/api/v1/consumer-groups/"
BILLING = f"{LIST}orders/billing/"
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


def findings(crew: Crew) -> dict[str, dict[str, Any]]:
    return {found["code"]: found["values"] for found in crew.viewer.get(BILLING).json()["diagnosis"]}


def test_the_diagnosis_is_made_of_what_nodes_and_the_collector_say(
    billing: ThreadedSystem, crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    billing.send("orders", 4, first=10)
    found = findings(crew)
    assert (found["no_consumers"]["lag"], found["no_consumers"]["arriving"]) == (4, None)
    assert found["unknown"]["reason"], "no collector runs"
    entry = {"state": "growing", "ack_rate": 1.0, "retry_lag": 7, "time_lag_seconds": 65.0, "reason": None}
    retries = "%RETRY%orders%billing"
    state = {
        "groups": {"orders\nbilling": entry, f"{retries}\nbilling": {"ack_rate": 1.0}},
        "subjects": {retries: {"send_rate": 1.5}},
    }
    monkeypatch.setattr(overview, "numbers", lambda: overview.Numbers(state, "", None))
    history = History([""] * 3, {"stored_messages": [2.0, 3.0, 9.0], "ack_rate": [], "consumers_online": [], "lag": []})
    monkeypatch.setattr(group_diagnosis, "read_history", lambda *_, **__: history)
    found = findings(crew)
    assert found["retry_loop"] == {"failing": 1.5, "attempts": 2.0, "pending": 7}
    assert found["dead_letters"]["count"] == 7
    assert found["growing"]["seconds"] == 65.0
    service.set_paused("orders", "billing", True, actor=ACTOR)
    assert findings(crew)["paused"] == {"lag": 4}
    billing.stop_broker("g2")
    found = findings(crew)
    assert found["broker_group_away"]["broker_group"] == "g2"
    assert found["paused"] == {"lag": None}, "half of it is no lag"


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        ({"state": "caught_up", "lag": 0, "consumers_online": 1}, {"keeping_up": 0}),
        ({"state": "idle", "lag": 0, "consumers_online": 0}, {"no_consumers": 0}),
        ({"state": "stopped", "lag": 3, "consumers_online": 0}, {"no_consumers": 3}),
        ({"state": "paused", "lag": 3, "consumers_online": 1, "is_paused": True}, {"paused": 3}),
    ],
)
def test_the_diagnosis_does_not_contradict_the_state_where_nodes_know_more(
    billing: ThreadedSystem,
    crew: Crew,
    monkeypatch: pytest.MonkeyPatch,
    measured: dict[str, Any],
    expected: dict[str, int],
) -> None:
    billing.send("orders", 4, first=10)
    state = {"groups": {"orders\nbilling": {"is_paused": False, **measured}}, "subjects": {}}
    monkeypatch.setattr(overview, "numbers", lambda: overview.Numbers(state, "", None))
    page = crew.viewer.get(BILLING).json()
    assert (page["state"], page["lag"]) == (measured["state"], 4)
    assert {found["code"]: found["values"]["lag"] for found in page["diagnosis"]} == expected


def test_a_group_that_no_node_knows_has_no_diagnosis(cluster: ThreadedSystem, crew: Crew) -> None:
    service.create_group("orders", "billing", {}, actor=ACTOR)
    assert crew.viewer.get(BILLING).json()["diagnosis"] == []


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


def test_a_reset_to_a_time_and_to_positions(billing: ThreadedSystem, crew: Crew) -> None:
    moment = now_ms() + 1
    eventually(lambda: now_ms() > moment)
    before = positions(crew)
    billing.send("orders", 4, first=10)
    billing.consume("orders", "billing", 4)
    at = datetime.fromtimestamp(moment / 1000, UTC).isoformat()
    assert crew.own.post(RESET, {"to": "time", "time": at}).status_code == 200
    assert positions(crew) == before
    done = crew.own.post(RESET, {"to": "positions", "positions": {"g1": "2"}}).json()
    assert [row["broker_group"] for row in done["broker_groups"]] == ["g1"]
    assert positions(crew) == {**before, "g1": 2}


def test_a_reset_is_undone_by_the_positions_before_it(billing: ThreadedSystem, crew: Crew) -> None:
    before = positions(crew)
    billing.send("orders", 6, first=10)
    assert crew.own.get(BILLING).json()["latest_reset"] is None
    crew.own.post(RESET, {"to": "latest"})
    reset = crew.viewer.get(BILLING).json()["latest_reset"]
    assert reset["before"] == {name: str(position) for name, position in before.items()}
    assert reset["after"] == {name: str(position) for name, position in positions(crew).items()}
    assert reset["by"].startswith("olga")
    assert reset["at"]
    undo = {"to": "positions", "positions": reset["before"]}
    planned = crew.own.post(f"{RESET}?dry_run=true", undo).json()
    assert sum(row["repeated"] for row in planned["broker_groups"]) == 6
    assert sum(row["pending"] for row in planned["broker_groups"]) == 6
    assert crew.own.post(RESET, undo).status_code == 200
    assert positions(crew) == before
    assert crew.own.get(BILLING).json()["latest_reset"]["after"] == reset["before"]


def test_an_old_reset_is_not_offered_to_be_undone(billing: ThreadedSystem, crew: Crew) -> None:
    crew.own.post(RESET, {"to": "earliest"})
    AuditEntry.objects.filter(action="consumer_group.reset_done").update(
        at=timezone.now() - UNDO_TIME - timedelta(seconds=1)
    )
    assert crew.own.get(BILLING).json()["latest_reset"] is None


def test_positions_are_copied_from_another_group(billing: ThreadedSystem, crew: Crew) -> None:
    billing.send("orders", 6, first=10)
    billing.consume("orders", "audit", 16)
    planned = crew.own.post(f"{RESET}?dry_run=true", {"to": "group", "from_group": "audit"}).json()
    assert sum(row["skipped"] for row in planned["broker_groups"]) == 6
    crew.own.post(RESET, {"to": "group", "from_group": "audit"})
    assert positions(crew) == ends(crew)
    nobody = crew.own.post(RESET, {"to": "group", "from_group": "nobody"})
    assert (nobody.status_code, nobody.json()["code"]) == (404, "consumer_group.no_position")


# --- creation ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "pending"),
    [
        ({"start": "earliest"}, 10), ({"start": "latest"}, 0), ({"start": "time", "time": "2020-01-01T00:00:00Z"}, 10),
        ({"start": "positions", "positions": {"g1": 2, "g2": "5"}}, 3), ({"start": "group", "from_group": "billing"}, 0),
    ],
    ids=lambda value: value["start"] if isinstance(value, dict) else str(value),
)  # fmt: skip
def test_a_group_is_created_with_its_start_position(
    billing: ThreadedSystem, crew: Crew, start: dict[str, Any], pending: int
) -> None:
    body = {"subject": "orders", "name": "audit", "description": "books", **start}
    there = everything()
    planned = crew.own.post(f"{LIST}?dry_run=true", body)
    assert (planned.status_code, everything()) == (200, there)
    assert sum(row["pending"] for row in planned.json()["broker_groups"]) == pending
    done = crew.own.post(LIST, {**body, "reason": "new"})
    assert done.status_code == 201, done.content
    assert done.json() == planned.json() | {"dry_run": False}
    actions = [entry[0] for entry in audit_rows()[-3:]]
    assert actions == ["consumer_group.create", "consumer_group.reset", "consumer_group.reset_done"]
    page = crew.own.get(f"{LIST}orders/audit/").json()
    assert (page["lag"], page["description"], len(page["progress"])) == (pending, "books", 2)
    assert len(billing.consume("orders", "audit", pending)) == pending
    again = crew.own.post(LIST, body)
    assert (again.status_code, again.json()["code"]) == (409, "consumer_group.exists")


def test_without_a_start_position_the_first_consumer_decides(billing: ThreadedSystem, crew: Crew) -> None:
    done = crew.own.post(LIST, {"subject": "orders", "name": "audit"})
    assert (done.status_code, done.json()["broker_groups"]) == (201, [])
    path = f"{LIST}orders/audit/"
    assert {place["next_sequence"] for place in crew.own.get(path).json()["progress"]} == {None}
    reset = crew.own.post(f"{path}reset/", {"to": "earliest"})
    assert reset.status_code == 200, "a known group can be given a position later"
    assert (reset.json()["before"], crew.own.get(path).json()["lag"]) == ({}, 10)


def test_a_group_with_progress_that_the_database_does_not_know_keeps_it(billing: ThreadedSystem, crew: Crew) -> None:
    ConsumerGroup.objects.all().delete()
    answer = crew.own.post(LIST, {"subject": "orders", "name": "billing", "start": "earliest"})
    assert (answer.status_code, answer.json()["code"]) == (409, "consumer_group.has_position")
    assert not ConsumerGroup.objects.exists()
    assert crew.own.post(LIST, {"subject": "orders", "name": "billing"}).status_code == 201
    assert positions(crew) == ends(crew)


def test_with_a_node_away_no_group_is_created_with_a_position(billing: ThreadedSystem, crew: Crew) -> None:
    billing.stop_broker("g2")
    there = everything()
    answer = crew.own.post(LIST, {"subject": "orders", "name": "audit", "start": "latest"})
    assert (answer.status_code, answer.json()["code"]) == (503, "broker_group.away")
    assert everything() == there


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"start": "yesterday"}, "start"), ({"start": "time"}, "time"), ({"start": "positions"}, "positions"),
        ({"start": "positions", "positions": {}}, "positions"),
        ({"start": "positions", "positions": {f"g{n}": 1 for n in range(POSITIONS_MAX + 1)}}, "positions"),
        ({"start": "positions", "positions": {"g1": "-1"}}, "positions.g1"),
        ({"start": "group"}, "from_group"), ({"start": "latest", "from_group": "billing"}, "from_group"),
        ({"time": "2026-01-01T00:00:00Z"}, "time"),
    ],
)  # fmt: skip
def test_a_start_that_makes_no_sense(crew_without_nodes: Crew, body: dict[str, Any], field: str) -> None:
    answer = crew_without_nodes.own.post(LIST, {"subject": "orders", "name": "audit", **body})
    assert (answer.status_code, answer.json()["code"]) == (400, "request.invalid"), answer.content
    assert list(answer.json()["fields"]) == [field]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 400, "request.invalid"), ({"to": "yesterday"}, 400, "request.invalid"), ({"to": "time"}, 400, "request.invalid"),
        ({"to": "time", "time": "soon"}, 400, "request.invalid"), ({"to": "positions"}, 400, "request.invalid"),
        ({"to": "positions", "positions": {"g1": "-1"}}, 400, "request.invalid"),
        ({"to": "positions", "positions": {"g1": "9" * 20}}, 400, "request.invalid"),
        ({"to": "positions", "positions": {"none": 1}}, 404, "broker_group.unknown"),
        ({"to": "latest", "positions": {"g1": 1}}, 400, "request.invalid"),
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
