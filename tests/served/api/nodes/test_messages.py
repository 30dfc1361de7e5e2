"""Stored messages over REST, against real nodes."""

import socket
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest

from api.pagination import PAGE_MAX
from broker_node.admin import filtered_search
from console.cluster import asking, limits
from console.cluster.producing import KEY_USER
from metaserver import queries
from metaserver.services import broker_groups, subjects
from qmq.errors import CallTimeout
from qmq.net.timing import Timeouts
from qmq.protocol.messages import Message
from tests.served.api.nodes.crew import Crew
from tests.served.api.nodes.people import all_pages
from tests.support.console.people import TESTER
from tests.support.drivers.in_process import connected, now_ms
from tests.support.servers.threaded_system import ThreadedSystem
from tests.support.waiting import ASK_SECONDS, eventually

ORDERS = "/api/v1/subjects/orders/messages/"


def audited(action: str) -> list[Any]:
    return list(queries.audit_entries().filter(action=action))


def test_pages_go_over_all_broker_groups_by_time(cluster: ThreadedSystem, crew: Crew) -> None:
    cluster.send("orders", 15, first=10)
    results, pages = all_pages(crew.own, ORDERS, order="oldest", limit=4)
    assert [row["message_id"] for row in results] == [f"m{n}" for n in range(25)]
    assert {row["broker_group"] for row in results} == {"g1", "g2"}
    times = [row["stored_at"] for row in results]
    assert times == sorted(times)
    assert len(pages) == 7
    assert all(page["unreachable"] == {} for page in pages)
    first = results[0]
    assert first["sequence"] == "0"
    assert first["properties"]["n"] == "0"
    assert first["tags"] == ["even"]
    assert first["size"] > 20
    assert (first["masked"], first["withheld"]) == (False, None)
    assert len(audited("message.read")) == 7, "one entry a request"


def test_the_newest_messages_come_first(cluster: ThreadedSystem, crew: Crew) -> None:
    cluster.send("orders", 15, first=10)
    oldest, _ = all_pages(crew.own, ORDERS, order="oldest", limit=100)
    newest, pages = all_pages(crew.own, ORDERS, limit=4)
    assert newest == oldest[::-1]
    assert (newest[0]["message_id"], len(pages)) == ("m24", 7)
    assert all(page["unreachable"] == {} for page in pages)
    middle = newest[10]
    back = {"order": "newest", "limit": 3}
    before = crew.own.get(ORDERS, {**back, "from_time": middle["stored_at"]}).json()["results"]
    assert [row["stored_at"] < middle["stored_at"] for row in before] == [True] * 3
    place = {"broker_group": middle["broker_group"], "sequence": middle["sequence"]}
    own = [row for row in newest if row["broker_group"] == middle["broker_group"]]
    begin = own.index(middle)
    assert crew.own.get(ORDERS, {**back, **place}).json()["results"] == own[begin : begin + 3]


def test_messages_are_found_by_time_sequence_and_id(cluster: ThreadedSystem, crew: Crew) -> None:
    moment = datetime.fromtimestamp(now_ms() / 1000, UTC)
    eventually(lambda: now_ms() / 1000 > moment.timestamp() + 0.001)
    cluster.send("orders", 4, first=10)
    after = crew.own.get(ORDERS, {"from_time": moment.isoformat()}).json()["results"]
    assert [row["message_id"] for row in after] == ["m10", "m11", "m12", "m13"]
    last = after[-1]
    query = {"broker_group": last["broker_group"], "sequence": last["sequence"]}
    assert crew.own.get(ORDERS, query).json()["results"] == [last]
    assert crew.own.get(ORDERS, {"message_id": "m12"}).json()["results"] == [after[2]]
    assert crew.own.get(ORDERS, {"message_id": "nobody"}).json() == {"results": [], "next": None, "unreachable": {}}
    one = f"{ORDERS}{last['broker_group']}/{last['sequence']}/"
    assert crew.own.get(one).json() == last
    gone = crew.own.get(f"{ORDERS}g1/999/")
    assert (gone.status_code, gone.json()["code"]) == (404, "message.unknown")
    assert crew.own.get(f"{ORDERS}g1/{1 << 63}/").status_code == 404


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"sequence": "3"}, "request.invalid"),
        ({"from_time": "2026-01-01T00:00:00Z", "message_id": "m1"}, "request.invalid"),
        ({"from_time": "2026-01-01T00:00:00"}, "request.invalid"),
        ({"limit": PAGE_MAX + 1}, "request.invalid"),
        ({"cursor": "nonsense"}, "request.cursor_illegal"),
        ({"cursor": "A" * 20_001}, "request.cursor_illegal"),
        ({"cursor": "WyJ4Iiwge31d"}, "request.cursor_illegal"),
        ({"message_id": "x" * 101}, "request.invalid"),
        ({"order": "best"}, "request.invalid"),
        ({"order": "newest", "message_id": "m1"}, "request.invalid"),
    ],
)
def test_questions_that_make_no_sense_are_refused(crew_without_nodes: Crew, query: dict[str, Any], code: str) -> None:
    answer = crew_without_nodes.own.get(ORDERS, query)
    assert (answer.status_code, answer.json()["code"]) == (400, code)


def test_a_cursor_belongs_to_its_question(crew: Crew) -> None:
    cursor = crew.own.get(ORDERS, {"limit": 2}).json()["next"]
    assert crew.own.get("/api/v1/subjects/free/messages/", {"cursor": cursor}).status_code == 400
    assert crew.own.get(ORDERS, {"cursor": cursor, "broker_group": "g1"}).status_code == 400


def test_what_is_not_there_is_not_found(crew: Crew) -> None:
    for path in (
        "nobody/messages/",
        "nobody/messages/search/",
        "%25RETRY%25nobody%25g/messages/",
        "%25RETRY%25x/messages/",
    ):
        answer = crew.admin.get(f"/api/v1/subjects/{path}")
        assert (answer.status_code, answer.json()["code"]) == (404, "subject.unknown"), path
    answer = crew.admin.get(ORDERS, {"broker_group": "g9"})
    assert (answer.status_code, answer.json()["code"]) == (404, "broker_group.unknown")


def test_contents_are_for_those_who_may_read_them(crew: Crew) -> None:
    for client in (crew.viewer, crew.other):
        rows = client.get(ORDERS).json()["results"]
        assert len(rows) == 10
        assert all(row["masked"] and row["properties"] is None for row in rows)
        assert client.get(ORDERS + "g1/0/").json()["masked"]
        assert client.get(ORDERS + "g1/0/trace/").json()["message"]["properties"] is None
        assert client.get(ORDERS + "search/", {"filter": "n=1"}).status_code == 403
    assert audited("message.read") == []
    assert not crew.admin.get(ORDERS + "g1/0/").json()["masked"]
    (entry,) = audited("message.read")
    assert (entry.actor.split()[0], entry.target) == ("ada", "orders")


def test_a_group_that_is_down_is_named_and_the_rest_answered(cluster: ThreadedSystem, crew: Crew) -> None:
    before = crew.own.get(ORDERS).json()["results"]
    cluster.stop_broker("g2")
    page = crew.own.get(ORDERS).json()
    assert page["results"] == [row for row in before if row["broker_group"] == "g1"]
    assert page["unreachable"] == {"g2": "connection refused"}
    assert page["next"] is None
    answer = crew.own.get(ORDERS + "g2/0/")
    assert (answer.status_code, answer.json()["code"]) == (503, "net.unreachable")
    found = crew.own.get(ORDERS + "search/").json()
    assert list(found["unreachable"]) == ["g2"]
    assert {row["broker_group"] for row in found["results"]} == {"g1"}
    assert (found["end"], found["progress"]) == (True, 1.0)
    trace = crew.own.get(ORDERS + "g1/0/trace/")
    assert trace.status_code == 200
    cluster.stop_broker("g1")
    found = crew.own.get(ORDERS + "search/").json()
    assert (sorted(found["unreachable"]), found["end"], found["progress"]) == (["g1", "g2"], True, 0.0)


def test_a_group_keeps_its_place_while_it_is_down(cluster: ThreadedSystem, crew: Crew) -> None:
    """It is asked again on the next page, and nothing of it is left out."""
    first = crew.own.get(ORDERS, {"limit": 3}).json()
    port = cluster.small.brokers["g2"].server.address[1]
    cluster.stop_broker("g2")
    hole = crew.own.get(ORDERS, {"limit": 2, "cursor": first["next"]}).json()
    assert list(hole["unreachable"]) == ["g2"]
    cluster.do(lambda: cluster.small.start_broker("g2", port))
    cluster.save_metadata()
    rest, _ = all_pages(crew.own, ORDERS, limit=3, cursor=hole["next"]) if hole["next"] else ([], [])
    ids = [row["message_id"] for page in (first, hole) for row in page["results"]] + [row["message_id"] for row in rest]
    assert sorted(ids) == sorted(set(ids)), "none twice"


def test_search_goes_step_by_step_to_an_end(
    cluster: ThreadedSystem, crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filtered_search, "STEP_MESSAGES_MAX", 7)
    cluster.send("orders", 40, first=10, colour="red")
    cluster.send("orders", 10, first=50, colour="blue")
    url, query = ORDERS + "search/", {"filter": 'properties.colour == "red" && "odd" in tags'}
    results, pages, cursor = [], [], None
    while True:
        page = crew.own.get(url, query | ({"cursor": cursor} if cursor else {})).json()
        if not pages:
            cluster.send("orders", 20, first=100, colour="red")
        pages.append(page)
        results += page["results"]
        cursor = page["next"]
        if page["end"]:
            break
    assert sorted(row["message_id"] for row in results) == sorted(f"m{n}" for n in range(10, 50) if n % 2)
    for group in ("g1", "g2"):
        places = [int(row["sequence"]) for row in results if row["broker_group"] == group]
        assert places == sorted(places, reverse=True), "newest first"
    assert cursor is None
    steps = [page["progress"] for page in pages]
    assert steps == sorted(steps)
    assert 0 < steps[0] < 1
    assert steps[-1] == 1.0
    assert {page["total"] for page in pages} == {60}, "what came meanwhile is not chased"
    scanned = [page["scanned"] for page in pages]
    assert (scanned[0], scanned[-1]) == (14, 60)
    assert (pages[0]["searched"], pages[0]["costly"]) == (["properties", "tags"], 0)
    moment = crew.own.get(ORDERS, {"message_id": "m20"}).json()["results"][0]["stored_at"]
    query = {"to_time": moment, "filter": "colour=red", "order": "oldest"}
    before, _ = all_pages(crew.own, url, **query)
    assert [row["message_id"] for row in before] == [f"m{n}" for n in range(10, 20)]


@pytest.mark.parametrize(
    ("query", "code", "why"),
    [
        ({"filter": "bodyy.a == 1"}, "filter.invalid", "line 1, column 6: 'bodyy.a' is unknown; did you mean 'body'?"),
        ({"filter": "x" * 4_001}, "request.invalid", "must be text of at most 4000 characters"),
        ({"order": "best"}, "request.invalid", "must be newest or oldest"),
    ],
)
def test_a_search_that_makes_no_sense_is_refused(crew: Crew, query: dict[str, str], code: str, why: str) -> None:
    answer = crew.own.get(ORDERS + "search/", query)
    assert (answer.status_code, answer.json()["code"]) == (400, code)
    assert why in answer.json()["fields"][next(iter(query))]


def test_a_message_is_produced_once_and_says_by_whom(cluster: ThreadedSystem, crew: Crew) -> None:
    body = {"properties": {"data": "hello ☃", "k": ""}, "tags": ["t"], "reason": "trying"}
    dry = crew.own.post(ORDERS + "?dry_run=true", body)
    assert (dry.status_code, dry.json()["message_id"]) == (200, None)
    assert sum(cluster.small.counts("orders").values()) == 10
    answers = [crew.own.post(ORDERS, body, headers={"Idempotency-Key": "one"}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    receipt = answers[0].json()
    assert answers[1].json() == receipt
    assert sum(cluster.small.counts("orders").values()) == 11
    (row,) = crew.own.get(ORDERS, {"message_id": receipt["message_id"]}).json()["results"]
    assert row["broker_group"] == receipt["broker_group"]
    assert {key: row["properties"][key] for key in ("data", "k")} == body["properties"]
    assert row["properties"][KEY_USER].startswith("olga")
    assert row["tags"] == ["t"]
    (entry,) = audited("message.send")
    assert (entry.reason, entry.after["message_id"]) == ("trying", receipt["message_id"])
    assert "hello" not in str(entry.after), "contents are not for the audit log"


def test_a_message_is_produced_for_later(cluster: ThreadedSystem, crew: Crew) -> None:
    due = datetime.now(UTC) + timedelta(hours=1)
    for body in ({"due_at": due.isoformat()}, {"delay_seconds": 3600}):
        answer = crew.own.post(ORDERS, {"properties": {"a": "b"}, **body})
        assert answer.status_code == 201, answer.content
        assert answer.json()["broker_group"] == "d1"
        assert abs(datetime.fromisoformat(answer.json()["due_at"]) - due) < timedelta(seconds=30)
    assert sum(cluster.small.counts("orders").values()) == 10


@pytest.mark.parametrize(
    "body",
    [
        {"properties": {"qmq_times": "3"}},
        {"properties": {KEY_USER: "somebody else"}},
        {"properties": {"a": "x" * 40_000}},
        {"properties": {"a": "b"}, "tags": ["t"] * 11},
        {"properties": {"a": "b"}, "delay_seconds": 1, "due_at": "2030-01-01T00:00:00Z"},
        {"properties": {"a": "b"}, "delay_seconds": -1},
        {"properties": ["a"]},
        {},
    ],
)
def test_a_message_that_can_not_be_is_refused(crew_without_nodes: Crew, body: dict[str, Any]) -> None:
    assert crew_without_nodes.own.post(ORDERS + "?dry_run=true", body).status_code == 400
    assert crew_without_nodes.own.post(ORDERS, body).status_code == 400
    assert audited("message.send") == []


def test_who_may_not_send_does_not(cluster: ThreadedSystem, crew: Crew) -> None:
    body = {"properties": {"a": "b"}}
    assert crew.viewer.post(ORDERS, body).status_code == 403
    assert crew.other.post(ORDERS, body).status_code == 403
    assert crew.own.post("/api/v1/subjects/ordres/messages/", body).status_code == 404
    retry = f"/api/v1/subjects/{quote('%RETRY%orders%g', safe='')}/messages/"
    assert crew.own.post(retry, body).json()["code"] == "subject.not_real"
    subjects.set_archived("orders", True, actor=TESTER)
    answer = crew.own.post(ORDERS, body)
    assert (answer.status_code, answer.json()["code"]) == (409, "subject.archived")
    assert sum(cluster.small.counts("orders").values()) == 10


def test_a_send_that_fails_leaves_two_entries(
    cluster: ThreadedSystem, crew: Crew, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SEND_TIMEOUTS", Timeouts(connect=0.2, send=0.2, delivery=0.5, route=0.2))
    settings.META_URL = "http://127.0.0.1:9/meta/address"
    answer = crew.own.post(ORDERS, {"properties": {"a": "b"}})
    assert answer.status_code == 503, answer.content
    assert len(audited("message.send")) == len(audited("message.send_failed")) == 1


def test_a_trace_says_who_took_it_and_that_it_was_retried(cluster: ThreadedSystem, crew: Crew) -> None:
    cluster.consume("orders", "g", 10, consumer_id="worker-1")
    cluster.consume("orders", "h", 10, settle="retry", consumer_id="worker-2")
    rows = crew.own.get(ORDERS).json()["results"]
    for row in rows:
        url = f"{ORDERS}{row['broker_group']}/{row['sequence']}/trace/"
        trace = eventually(lambda url=url: _settled(crew.own.get(url).json()), every_s=ASK_SECONDS)
        by_group = {standing["group"]: standing for standing in trace["groups"]}
        assert by_group["g"]["state"] == "acked"
        assert by_group["g"]["consumer_id"] in ("worker-1", None)
        assert by_group["g"]["pulled_at"] is not None
        assert by_group["h"]["state"] == "retried"
        links = by_group["h"]["retries"]
        # What the consumer held of its retries when it left is there once more.
        assert {(link["subject"], link["attempt"]) for link in links} == {("%RETRY%orders%h", 2)}
        assert by_group["h"]["links_complete"]
        assert trace["message"]["message_id"] == row["message_id"]
        assert trace["scope"] == "all broker groups"
    only = crew.own.get(f"{ORDERS}g1/0/trace/", {"group": "g"}).json()["groups"]
    assert [standing["group"] for standing in only] == ["g"]
    assert crew.own.get(f"{ORDERS}g1/999/trace/").status_code == 404
    assert crew.own.get(f"{ORDERS}g1/0/trace/", {"group": "nobody"}).status_code == 404


def test_a_trace_follows_retries_to_other_broker_groups(cluster: ThreadedSystem, crew: Crew) -> None:
    """A consumer sends a failed message back by way of any broker group; its own only knows that it was acked."""
    cluster.consume("orders", "g", 10)
    row = next(row for row in crew.own.get(ORDERS).json()["results"] if row["broker_group"] == "g1")
    url = f"{ORDERS}g1/{row['sequence']}/trace/"
    eventually(
        lambda: crew.own.get(url).json()["groups"][0]["state"] == "acked", what="the ack came", every_s=ASK_SECONDS
    )
    at = now_ms()
    properties = {**row["properties"], "qmq_times": "2", "qmq_consumerGroupName": "g"}

    async def send_back(kind: str) -> None:
        async with connected(cluster.small.brokers["g2"]) as client:
            name = f"%{kind}%orders%g"
            assert await client.send(Message(name, row["message_id"], properties, (), 0, at, at)) == {}

    cluster.do(lambda: send_back("RETRY"))
    (standing,) = crew.own.get(url).json()["groups"]
    assert (standing["state"], standing["known"], standing["dead_letters"]) == ("retried", True, [])
    (link,) = standing["retries"]
    assert (link["broker_group"], link["sequence"], link["attempt"]) == ("g2", "0", 2)
    cluster.do(lambda: send_back("DEAD_RETRY"))
    (standing,) = crew.own.get(url).json()["groups"]
    assert (standing["state"], len(standing["retries"]), len(standing["dead_letters"])) == ("dead", 1, 1)
    cluster.stop_broker("g2")
    trace = crew.own.get(url).json()
    assert trace["groups"][0]["state"] == "acked"
    assert not trace["groups"][0]["links_complete"]
    assert "g2 could not be reached" in trace["groups"][0]["links_why"]
    assert trace["scope"] == "the reachable broker groups"


def _settled(trace: dict[str, Any]) -> dict[str, Any] | None:
    states = {standing["group"]: standing["state"] for standing in trace["groups"]}
    return trace if states == {"g": "acked", "h": "retried"} else None


def test_retry_subjects_are_their_real_subjects(cluster: ThreadedSystem, crew: Crew) -> None:
    cluster.consume("orders", "g", 10, settle="retry")
    url = f"/api/v1/subjects/{quote('%RETRY%orders%g', safe='')}/messages/"
    rows, _ = all_pages(crew.own, url, limit=3)
    assert {row["message_id"] for row in rows} == {f"m{n}" for n in range(10)}
    assert rows[0]["properties"]["qmq_times"] == "2"
    assert all(row["masked"] for row in crew.other.get(url).json()["results"])


def test_a_silent_node_leaves_a_hole_in_time(
    cluster: ThreadedSystem, crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "NODE_SECONDS", 2.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        (node,) = (n for n in cluster.small.meta.directory.metadata().nodes if n.broker_group == "g2")
        address = "{}:{}".format(*silent.getsockname())
        broker_groups.save_node(replace(node, admin_address=address))
        page = crew.own.get(ORDERS).json()
        assert page["unreachable"]["g2"] == "no response within 2 s"
        assert {row["broker_group"] for row in page["results"]} == {"g1"}
        monkeypatch.setattr(limits, "NODE_SECONDS", 60.0)
        with pytest.raises(CallTimeout):
            admin = asking.brokers(["g2"]).one("g2")
            asking.ask(admin.stats, seconds=0.2)
        broker_groups.save_node(replace(node, admin_address=""))
        assert "registered" in crew.own.get(ORDERS).json()["unreachable"]["g2"]
        assert crew.own.get(ORDERS + "g2/0/").status_code == 503


def test_so_many_groups_are_asked_at_a_time(crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "GROUPS_MAX", 1)
    page = crew.own.get(ORDERS).json()
    assert list(page["unreachable"]) == ["g2"]
    assert {row["broker_group"] for row in page["results"]} == {"g1"}


def test_the_audit_log_does_not_keep_what_was_looked_for(crew: Crew) -> None:
    crew.own.get(ORDERS + "search/", {"filter": "n=7", "order": "oldest"})
    (entry,) = audited("message.read")
    assert entry.after["query"] == {"filter": ["(not recorded)"], "match": [], "order": ["oldest"]}


def test_reading_is_limited(cluster: ThreadedSystem, crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    from api.throttles import BrowseThrottle

    monkeypatch.setattr(BrowseThrottle, "THROTTLE_RATES", {"browse": "2/min", "principal": "1000/min"})
    assert [crew.own.get(ORDERS).status_code for _ in range(3)] == [200, 200, 429]
