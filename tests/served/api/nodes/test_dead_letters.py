"""Dead letters over REST, against real nodes."""

import csv
import io
import json
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from api.downloads import ROWS_OF_NODES_MAX
from api.views.dead_letters import COUNTS_MAX
from api.views.messages import MessagesView
from console.cluster import limits
from console.cluster.dead_letters import causes, claims, decisions, orders, sending
from console.cluster.producing import KEY_USER
from console.models import DeadLetterDecision
from metaserver import queries
from metaserver.models import ClientSeen
from metaserver.services import subjects
from qmq.net.timing import Timeouts
from tests.served.api.nodes.crew import Crew
from tests.served.api.nodes.people import all_pages
from tests.support.console.people import TESTER
from tests.support.servers.threaded_system import ThreadedSystem

COUNTS = "/api/v1/dead-letters/"
LETTERS = "/api/v1/dead-letters/orders/g/"
CAUSES = LETTERS + "causes/"
REPLAY, DELETE = LETTERS + "replay/", LETTERS + "delete/"
DEAD, RETRY = "%DEAD_RETRY%orders%g", "%RETRY%orders%g"
State = DeadLetterDecision.State


@pytest.fixture
def letters(cluster: ThreadedSystem, crew: Crew) -> list[dict[str, Any]]:
    """The ten messages of `orders`, given up by group g."""
    cluster.make_dead("orders", "g", 10)
    rows, _ = all_pages(crew.own, LETTERS, limit=3)
    assert sorted(row["message_id"] for row in rows) == sorted(f"m{n}" for n in range(10))
    return rows


def audited(action: str) -> list[Any]:
    return list(queries.audit_entries().filter(action=action))


def named(*rows: dict[str, Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["broker_group"], []).append(row["sequence"])
    return found


def rows_by_group(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(row["broker_group"] for row in rows)


def states(crew: Crew, *wanted: str) -> Counter[str]:
    rows, _ = all_pages(crew.own, LETTERS, limit=4, **({"state": list(wanted)} if wanted else {}))
    return Counter(row["decision"]["state"] if row["decision"] else "open" for row in rows)


def test_counts_by_subject_and_group(cluster: ThreadedSystem, crew: Crew, letters: list[dict[str, Any]]) -> None:
    cluster.make_dead("orders", "h", 10)
    cluster.make_dead("free", "g", 1)
    rows, pages = all_pages(crew.viewer, COUNTS, limit=1)
    assert [(row["subject"], row["group"], row["stored"], row["open"]) for row in rows] == [
        ("free", "g", 1, 1),
        ("orders", "g", 10, 10),
        ("orders", "h", 10, 10),
    ]
    assert len(pages) == 3
    mine = rows[1]
    assert (mine["oldest"], mine["newest"]) == (letters[0]["stored_at"], letters[-1]["stored_at"])
    assert sum(mine["broker_groups"].values()) == 10
    assert set(mine["broker_groups"]) == {letter["broker_group"] for letter in letters}
    for query, count in (({"subject": "orders"}, 2), ({"group": "g"}, 2), ({"subject": "orders", "group": "h"}, 1)):
        assert len(all_pages(crew.viewer, COUNTS, **query)[0]) == count, query
    assert crew.viewer.get(COUNTS, {"subject": "nobody"}).json()["results"] == []
    assert crew.viewer.get(COUNTS, {"limit": COUNTS_MAX + 1}).status_code == 400
    cluster.stop_broker("g1")
    partial = crew.viewer.get(COUNTS, {"subject": "orders", "group": "g"}).json()
    assert list(partial["unreachable"]) == ["g1"]
    assert partial["results"][0]["broker_groups"] == {"g2": mine["broker_groups"]["g2"]}


def test_letters_say_why(crew: Crew, letters: list[dict[str, Any]]) -> None:
    first = letters[0]
    assert (first["attempts"], first["attempts_max"]) == (1, 1)
    assert int(first["last_pull_sequence"]) >= 0
    assert first["decision"] is None
    assert first["properties"]["qmq_consumerGroupName"] == "g"
    times = [row["stored_at"] for row in letters]
    assert times == sorted(times)
    for client in (crew.viewer, crew.other):
        masked = client.get(LETTERS).json()["results"]
        assert len(masked) == 10
        assert all(row["masked"] and row["properties"] is None and row["attempts"] == 1 for row in masked)
    assert {entry.target for entry in audited("message.read")} == {DEAD}
    assert crew.own.get(LETTERS, {"state": "lost"}).status_code == 400
    assert crew.own.get("/api/v1/dead-letters/nobody/g/").status_code == 404
    assert crew.own.get("/api/v1/dead-letters/orders/nobody/").json()["results"] == []


def do_all(crew: Crew, url: str, **more: Any) -> dict[str, Any]:
    """Replay or delete all dead letters: as many as a dry run counts."""
    body = {"all": True, **more}
    expected = crew.own.post(url + "?dry_run=true", body).json()["done"]
    answer: dict[str, Any] = crew.own.post(url, body | {"expected": expected}).json()
    return answer


@pytest.mark.parametrize("url", [REPLAY, DELETE])
def test_another_number_than_expected_changes_nothing(
    cluster: ThreadedSystem, crew: Crew, letters: list[dict[str, Any]], url: str
) -> None:
    unsaid = crew.own.post(url, {"all": True})
    assert (unsaid.status_code, list(unsaid.json()["fields"])) == (400, ["expected"])
    for expected in (0, 9, 11):
        differs = crew.own.post(url, {"all": True, "expected": expected})
        assert (differs.status_code, differs.json()["code"]) == (409, "dead_letter.count_differs")
        assert "10 dead letters would be processed" in differs.json()["detail"]
    assert states(crew) == {"open": 10}
    first = crew.own.post(url, {"all": True, "limit": 4, "expected": 4}).json()
    assert crew.own.post(url, {"all": True, "cursor": first["next"], "expected": 5}).status_code == 409
    assert crew.own.post(url, {"all": True, "cursor": first["next"], "expected": 6}).json()["done"] == 6
    assert crew.own.post(url, {"all": True, "expected": 0}).json()["already"] == 10


def test_causes_are_shown_filtered_and_counted(
    cluster: ThreadedSystem, crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(causes, "PAGE", 3)
    cluster.make_dead("orders", "g", 4, "AddressMissing")
    cluster.make_dead("orders", "g", 3, "OutOfStock")
    cluster.make_dead("orders", "g", 3)
    rows, _ = all_pages(crew.viewer, LETTERS, limit=3)
    assert Counter(row["cause"] for row in rows) == {"AddressMissing": 4, "OutOfStock": 3, None: 3}
    found, _ = all_pages(crew.viewer, LETTERS, limit=2, cause="OutOfStock")
    assert found == [row for row in rows if row["cause"] == "OutOfStock"]
    assert all_pages(crew.viewer, LETTERS, cause="outofstock")[0] == []
    counted = crew.viewer.get(CAUSES).json()
    assert sorted(counted.pop("results"), key=lambda row: row["messages"])[-1] == {
        "cause": "AddressMissing",
        "messages": 4,
    }
    timeline = counted.pop("timeline")
    assert counted == {"others": 0, "uncounted": 0, "unreachable": {}, "groups_left_out": False}
    assert {row["cause"]: sum(row["messages"]) for row in timeline["series"]} == {
        "AddressMissing": 4, "OutOfStock": 3, None: 3,
    }  # fmt: skip
    assert timeline["step_seconds"] == 60
    (gone, *_) = found
    crew.own.post(DELETE, {"sequences": named(gone), "reason": "x"})
    results = {row["cause"]: row["messages"] for row in crew.viewer.get(CAUSES).json()["results"]}
    assert results == {"AddressMissing": 4, "OutOfStock": 2, None: 3}
    monkeypatch.setattr(causes, "DEAD_LETTERS_MAX", 2)
    monkeypatch.setattr(causes, "CAUSES_MAX", 1)
    bounded = crew.viewer.get(CAUSES).json()
    assert sum(row["messages"] for row in bounded["results"]) + bounded["others"] + bounded["uncounted"] >= 9
    assert len(bounded["results"]) == 1
    assert bounded["uncounted"] == 10 - 2 * len(rows_by_group(rows))


def test_causes_of_all_groups(cluster: ThreadedSystem, crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.make_dead("orders", "g", 4, "AddressMissing")
    cluster.make_dead("orders", "h", 3, "OutOfStock")
    cluster.make_dead("free", "g", 1, "AddressMissing")
    found = crew.viewer.get(COUNTS + "causes/").json()
    assert {row["cause"]: row["messages"] for row in found["results"]} == {"AddressMissing": 5, "OutOfStock": 3}
    assert (found["uncounted"], found["groups_left_out"]) == (0, False)
    monkeypatch.setattr(causes, "GROUPS_MAX", 2)
    monkeypatch.setattr(causes, "OF_EACH_MAX", 1)
    found = crew.viewer.get(COUNTS + "causes/").json()
    assert found["groups_left_out"]
    counted = sum(row["messages"] for row in found["results"])
    assert found["uncounted"] > 0
    assert counted + found["uncounted"] == 5, "those of free/g and orders/g"


def test_each_attempt_has_its_own_cause(cluster: ThreadedSystem, crew: Crew) -> None:
    for cause in ("TimeoutError", "OutOfStock"):
        cluster.consume("orders", "g", 10, settle="retry", cause=cause, attempts_max=2)
    letter = crew.own.get(LETTERS).json()["results"][0]
    assert letter["cause"] == "OutOfStock"
    story = crew.viewer.get(f"{LETTERS}{letter['broker_group']}/{letter['sequence']}/").json()
    # The first consumer had pulled second attempts as well, and left without settling them: these have no cause.
    recorded = [(one["attempt"], one["cause"]) for one in story["story"] if one["cause"] is not None]
    assert recorded == [(1, "TimeoutError"), (2, "OutOfStock")]


def test_a_replay_goes_to_its_group_alone_and_only_once(
    cluster: ThreadedSystem, crew: Crew, letters: list[dict[str, Any]]
) -> None:
    before = cluster.small.counts(RETRY)
    body = {"all": True, "reason": "fixed"}
    dry = crew.own.post(REPLAY + "?dry_run=true", body).json()
    assert (dry["dry_run"], dry["done"], dry["already"]) == (True, 10, 0)
    assert cluster.small.counts(RETRY) == before
    assert states(crew) == {"open": 10}
    done = crew.own.post(REPLAY, body | {"expected": 10}).json()
    assert (done["done"], done["failed"], done["unknown"], done["next"]) == (10, 0, 0, None)
    copies = [message for message in cluster.small.stored(RETRY) if message.message_id.startswith("replay.")]
    assert sorted(copy.properties[sending.KEY_REPLAY_OF] for copy in copies) == sorted(f"m{n}" for n in range(10))
    assert len({copy.message_id for copy in copies}) == 10
    assert sum(cluster.small.counts("orders").values()) == 10, "other groups get nothing"
    got = cluster.consume("orders", "g", 10)
    assert {delivery.attempt for delivery in got} == {1}
    assert {delivery.properties["n"] for delivery in got} == {str(n) for n in range(10)}
    assert all(delivery.properties[KEY_USER].startswith("olga") for delivery in got)
    again = crew.own.post(REPLAY, body | {"expected": 0}).json()
    assert (again["done"], again["already"]) == (0, 10)
    rows, _ = all_pages(crew.own, LETTERS)
    assert {row["decision"]["replay_id"] for row in rows} == {copy.message_id for copy in copies}
    assert all(row["decision"]["by"].startswith("olga") and row["decision"]["replays"] == 1 for row in rows)
    entries = audited("dead_letter.replay")
    assert sum(entry.after["letters"] for entry in entries) == 10
    assert {(entry.target, entry.reason, entry.after["to"]) for entry in entries} == {("orders/g", "fixed", "group")}
    (count,) = crew.own.get(COUNTS, {"subject": "orders"}).json()["results"]
    assert (count["stored"], count["open"], count["replayed"]) == (10, 0, 10)


def test_force_replays_once_more_under_another_id(
    cluster: ThreadedSystem, crew: Crew, letters: list[dict[str, Any]]
) -> None:
    body = {"sequences": named(letters[0])}
    first = crew.own.post(REPLAY, body).json()
    assert (first["done"], first["looked_at"]) == (1, 1)
    assert crew.own.post(REPLAY, body).json()["already"] == 1
    assert crew.own.post(REPLAY, body | {"force": True}).json()["done"] == 1
    copies = [message for message in cluster.small.stored(RETRY) if message.message_id.startswith("replay.")]
    assert len({copy.message_id for copy in copies}) == 2
    assert {copy.properties[sending.KEY_REPLAY_OF] for copy in copies} == {letters[0]["message_id"]}


def test_a_replay_to_the_subject_is_for_every_group(
    cluster: ThreadedSystem, crew: Crew, letters: list[dict[str, Any]]
) -> None:
    cluster.consume("orders", "h", 10)
    body = {"sequences": named(*letters[:3]), "to": "subject"}
    assert crew.own.post(REPLAY, body, headers={"Idempotency-Key": "k"}).json()["done"] == 3
    assert crew.own.post(REPLAY, body, headers={"Idempotency-Key": "k"}).json()["done"] == 3, "the answer is repeated"
    copies = [message for message in cluster.small.stored("orders") if message.message_id.startswith("replay.")]
    assert len(copies) == 3
    for copy in copies:
        assert not {"qmq_times", "qmq_maxRetryNum", "qmq_consumerGroupName", "qmq_pullOffset"} & set(copy.properties)
    for group in ("g", "h"):
        got = cluster.consume("orders", group, 3)
        assert {delivery.message_id for delivery in got} == {copy.message_id for copy in copies}


def test_a_replay_can_go_to_another_subject(cluster: ThreadedSystem, crew: Crew, letters: list[dict[str, Any]]) -> None:
    cluster.send("repairs", 1)
    body = {"sequences": named(*letters[:3]), "to": "other", "other_subject": "repairs"}
    assert crew.own.post(f"{REPLAY}?dry_run=true", body).json()["done"] == 3
    assert len(cluster.small.stored("repairs")) == 1
    assert crew.own.post(REPLAY, body).json()["done"] == 3
    copies = [message for message in cluster.small.stored("repairs") if message.message_id.startswith("replay.")]
    assert {copy.properties[sending.KEY_REPLAY_OF] for copy in copies} == {row["message_id"] for row in letters[:3]}
    for copy in copies:
        assert not {"qmq_times", "qmq_maxRetryNum", "qmq_consumerGroupName"} & set(copy.properties)
    rows, _ = all_pages(crew.own, LETTERS, state="replayed")
    assert {(row["decision"]["replayed_to"], row["decision"]["other_subject"]) for row in rows} == {
        ("other", "repairs")
    }
    assert {entry.after["other_subject"] for entry in audited("dead_letter.replay")} == {"repairs"}


def test_another_subject_must_exist_and_accept_messages_of_the_caller(
    cluster: ThreadedSystem, crew: Crew, letters: list[dict[str, Any]]
) -> None:
    cluster.send("repairs", 1)

    def to(other: str) -> tuple[int, str]:
        answer = crew.own.post(REPLAY, {"sequences": named(letters[0]), "to": "other", "other_subject": other})
        return answer.status_code, answer.json()["code"]

    assert to("nowhere") == (404, "subject.unknown")
    assert to(DEAD) == (400, "subject.not_real")
    subjects.set_archived("repairs", True, actor=TESTER)
    assert to("repairs") == (409, "subject.archived")
    assert to("free") == (403, "access.denied"), "it belongs to another team"
    assert DeadLetterDecision.objects.count() == 0


def test_one_dead_letter_can_be_edited_before_it_is_replayed(
    cluster: ThreadedSystem, crew: Crew, letters: list[dict[str, Any]]
) -> None:
    letter = letters[0]
    edit = {"properties": {"data": '{"amount": 5}', "new": "\u4fee\u6b63 "}, "tags": ["fixed"]}
    body = {"sequences": named(letter), "edit": edit}
    assert crew.own.post(f"{REPLAY}?dry_run=true", body).json()["done"] == 1
    assert crew.own.post(REPLAY, body).json()["done"] == 1
    [copy] = [message for message in cluster.small.stored(RETRY) if message.message_id.startswith("replay.")]
    own = {name: text for name, text in copy.properties.items() if not name.startswith("qmq_")}
    assert own == edit["properties"]
    assert (copy.properties[sending.KEY_REPLAY_OF], copy.tags) == (letter["message_id"], ("fixed",))
    assert copy.properties["qmq_consumerGroupName"] == "g", "what the protocol needs is not edited away"
    [row] = all_pages(crew.own, LETTERS, state="replayed")[0]
    assert row["properties"] == letter["properties"], "the dead letter itself stays as it is"
    [entry] = audited("dead_letter.replay")
    assert entry.after["edited_properties"] == ["data", "n", "new"], "removed ones too"
    assert "amount" not in json.dumps(entry.after), "the audit log has names, no contents"


def test_another_edit_or_destination_is_another_message() -> None:
    decision = DeadLetterDecision(subject="orders", group="g", broker_group="g1", sequence=1, message_id="m1")

    def replay_id(other: str = "", edit: orders.Edit | None = None) -> str:
        order = orders.Order("orders", "g", "replay", "other", False, TESTER, other_subject=other, edit=edit)
        return claims.replay_id(order, decision)

    found = [
        replay_id(), replay_id("repairs"), replay_id("others"), replay_id(edit=orders.Edit({"data": "a"}, [])),
        replay_id(edit=orders.Edit({"data": "b"}, [])), replay_id(edit=orders.Edit({"data": "b"}, ["x"])),
    ]  # fmt: skip
    assert len(set(found)) == len(found)
    assert replay_id("repairs") == found[1], "the same until one is known to be stored"


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        ({"properties": {"qmq_times": "1"}, "tags": []}, "qmq_times is written by clients and nodes"),
        ({"properties": {"data": "x" * 20_000_000}, "tags": []}, ""),
    ],
)
def test_an_edit_that_no_message_can_carry_changes_nothing(
    crew: Crew, letters: list[dict[str, Any]], edit: dict[str, Any], text: str
) -> None:
    for query in ("?dry_run=true", ""):
        answer = crew.own.post(REPLAY + query, {"sequences": named(letters[0]), "edit": edit})
        found = answer.json()
        assert answer.status_code >= 400 or (found["done"], found["failed"]) == (0, 1), found
        assert text in json.dumps(found)
    assert DeadLetterDecision.objects.count() == 0


def test_a_replay_goes_on_where_it_ended(
    cluster: ThreadedSystem, crew: Crew, letters: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "BATCH", 2)
    seen, cursor = [], None
    while True:
        answer = do_all(crew, REPLAY, limit=3, **({"cursor": cursor} if cursor else {}))
        seen.append(answer["looked_at"])
        cursor = answer["next"]
        if cursor is None:
            break
    assert seen == [3, 3, 3, 1]
    assert states(crew) == {"replayed": 10}
    assert {entry.after["letters"] for entry in audited("dead_letter.replay")} <= {1, 2}
    assert crew.own.post(REPLAY, {"all": True, "expected": 0, "cursor": "nonsense"}).status_code == 400
    delete_cursor = crew.own.post(DELETE + "?dry_run=true", {"all": True, "limit": 1}).json()["next"]
    assert crew.own.post(REPLAY, {"all": True, "expected": 0, "cursor": delete_cursor}).status_code == 400


def test_deleted_letters_are_hidden_and_stay_where_they_are(
    cluster: ThreadedSystem, crew: Crew, letters: list[dict[str, Any]]
) -> None:
    body = {"sequences": named(*letters[:4])}
    assert crew.own.post(DELETE + "?dry_run=true", body).json()["done"] == 4
    assert states(crew) == {"open": 10}
    answer = crew.own.post(DELETE, body).json()
    assert (answer["done"], answer["already"]) == (4, 0)
    assert answer["notes"][0]["code"] == "dead_letters_hidden"
    assert crew.own.post(DELETE, body).json()["already"] == 4
    assert states(crew) == {"open": 6}
    assert states(crew, "deleted") == {"deleted": 4}
    assert sum(cluster.small.counts(DEAD).values()) == 10, "the log is append-only"
    (count,) = crew.own.get(COUNTS, {"subject": "orders"}).json()["results"]
    assert (count["stored"], count["open"], count["deleted"]) == (10, 6, 4)
    replayed = do_all(crew, REPLAY)
    assert (replayed["done"], replayed["already"]) == (6, 4)
    entries = audited("dead_letter.delete")
    assert sum(entry.after["letters"] for entry in entries) == 4


def test_a_letter_that_another_request_is_at_is_left_alone(crew: Crew, letters: list[dict[str, Any]]) -> None:
    crew.own.post(REPLAY, {"sequences": named(letters[0])})
    row = DeadLetterDecision.objects.get()
    row.state, row.replays = State.REPLAYING, 0
    row.save()
    assert do_all(crew, REPLAY)["under_way"] == 1
    row.at = timezone.now() - timedelta(seconds=limits.CLAIM_SECONDS + 1)
    row.save()
    assert do_all(crew, REPLAY)["done"] == 1, "whoever claimed it has ended"
    row.refresh_from_db()
    assert (row.state, row.replays) == (State.REPLAYED, 1)


def test_what_nobody_knows_is_sent_again_under_the_same_id(
    cluster: ThreadedSystem,
    crew: Crew,
    letters: list[dict[str, Any]],
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.META_URL = "http://127.0.0.1:9/meta/address"
    monkeypatch.setattr(decisions, "BATCH", 3)
    short = Timeouts(connect=0.2, send=0.2, delivery=0.5, route=0.2)
    with monkeypatch.context() as impatient:
        impatient.setattr(limits, "SEND_TIMEOUTS", short)
        answer = do_all(crew, REPLAY)
    assert (answer["done"], answer["unknown"]) == (0, 3)
    assert answer["stopped"]
    assert answer["next"] is not None
    assert states(crew, "unknown") == {"unknown": 3}
    ids = {row.replay_id for row in DeadLetterDecision.objects.all()}
    settings.META_URL = cluster.meta_url
    answer = do_all(crew, REPLAY, cursor=answer["next"])
    assert (answer["done"], answer["next"]) == (10, None), "the batch that was stopped at comes again"
    stored = {message.message_id for message in cluster.small.stored(RETRY)}
    assert ids <= stored
    assert states(crew) == {"replayed": 10}


def test_refused_letters_are_open_again(
    cluster: ThreadedSystem, crew: Crew, letters: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy that can't be encoded is surely not stored."""
    monkeypatch.setattr(sending, "KEY_REPLAY_OF", "x" * 70_000)
    answer = do_all(crew, REPLAY)
    assert (answer["done"], answer["failed"], len(answer["failures"])) == (0, 10, 10)
    assert DeadLetterDecision.objects.count() == 0
    crew.own.post(DELETE, {"sequences": named(letters[0])})
    answer = crew.own.post(REPLAY, {"sequences": named(letters[0]), "force": True}).json()
    assert answer["failed"] == 1
    assert states(crew, "deleted") == {"deleted": 1}, "the decision before is there again"


def test_a_broker_that_is_down_leaves_its_letters_for_later(
    cluster: ThreadedSystem, crew: Crew, letters: list[dict[str, Any]]
) -> None:
    there = [row for row in letters if row["broker_group"] == "g1"]
    cluster.stop_broker("g2")
    answer = do_all(crew, REPLAY)
    assert (answer["done"], list(answer["unreachable"])) == (len(there), ["g2"])
    answer = crew.own.post(DELETE, {"sequences": named(*letters)}).json()
    assert (answer["done"], list(answer["unreachable"])) == (len(there), ["g2"])
    page = crew.own.get(LETTERS, {"state": "deleted"}).json()
    assert (len(page["results"]), list(page["unreachable"])) == (len(there), ["g2"])


def test_what_is_named_and_not_there_fails(crew: Crew, letters: list[dict[str, Any]]) -> None:
    answer = crew.own.post(REPLAY, {"sequences": {"g1": ["0", "777"], "g2": [0]}}).json()
    assert (answer["done"], answer["failed"]) == (2, 1)
    assert answer["failures"][0]["sequence"] == "777"
    assert "not found" in answer["failures"][0]["why"]
    answer = crew.own.post(REPLAY, {"sequences": {"g9": [0]}})
    assert (answer.status_code, answer.json()["code"]) == (404, "broker_group.unknown")


def test_a_decision_does_not_stick_to_another_letter(crew: Crew, letters: list[dict[str, Any]]) -> None:
    """A node that lost its log numbers anew."""
    do_all(crew, DELETE)
    DeadLetterDecision.objects.update(message_id="another")
    assert states(crew) == {"open": 10}
    assert do_all(crew, REPLAY)["done"] == 10
    assert DeadLetterDecision.objects.count() == 10


def test_decisions_go_with_the_letters(
    crew: Crew, letters: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention took all letters but the newest of each broker group."""
    do_all(crew, DELETE)
    real = decisions._read

    def shortened(*arguments: Any) -> dict[str, Any]:
        page = real(*arguments)
        begin = page["end_sequence"] - 1
        kept = [message for message in page["messages"] if message["sequence"] >= begin]
        return {**page, "messages": kept, "begin_sequence": begin}

    monkeypatch.setattr(decisions, "_read", shortened)
    newest = {row["broker_group"]: row["sequence"] for row in letters}
    last = {"sequences": {group: [sequence] for group, sequence in newest.items()}}
    assert crew.own.post(REPLAY, last | {"force": True}).json()["done"] == len(newest)
    assert DeadLetterDecision.objects.count() == len(newest)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"all": False},
        {"all": True, "sequences": {"g1": [1]}},
        {"sequences": {}},
        {"sequences": {"g1": []}},
        {"sequences": {"g1": [-1]}},
        {"sequences": {"g1": [1 << 63]}},
        {"sequences": {"g1": list(range(decisions.SEQUENCES_MAX + 1))}},
        {"sequences": {"g1": [1]}, "cursor": "x"},
        {"all": True, "expected": -1},
        {"all": True, "expected": 0, "limit": decisions.REPLAY_MAX + 1},
        {"all": True, "expected": 0, "limit": 0},
        {"all": True, "expected": 0, "to": "everybody"},
        {"sequences": {"g1": [1]}, "to": "other"},
        {"sequences": {"g1": [1]}, "other_subject": "orders"},
        {"sequences": {"g1": [1, 2]}, "edit": {"properties": {}, "tags": []}},
        {"all": True, "expected": 0, "edit": {"properties": {}, "tags": []}},
        {"sequences": {"g1": [1]}, "edit": {"properties": {"a": 1}, "tags": []}},
        {"sequences": {"g1": [1]}, "edit": {"properties": {"a": "b"}}},
        {"sequences": {"g1": [1]}, "edit": {"properties": {}, "tags": [], "body": "x"}},
    ],
)
def test_orders_that_make_no_sense_are_refused(crew_without_nodes: Crew, body: dict[str, Any]) -> None:
    assert crew_without_nodes.own.post(REPLAY, body).status_code == 400


def test_who_may_not_decide_does_not(cluster: ThreadedSystem, crew: Crew, letters: list[dict[str, Any]]) -> None:
    body = {"all": True, "expected": 10}
    for client in (crew.viewer, crew.other):
        assert client.post(REPLAY, body).status_code == 403
        assert client.post(DELETE, body).status_code == 403
    assert DeadLetterDecision.objects.count() == 0
    subjects.set_archived("orders", True, actor=TESTER)
    answer = crew.own.post(REPLAY, body)
    assert (answer.status_code, answer.json()["code"]) == (409, "subject.archived")
    assert crew.own.post(DELETE, body).json()["done"] == 10


def test_text_that_was_no_utf8_is_not_copied_by_mistake(cluster: ThreadedSystem, crew: Crew) -> None:
    cluster.send("orders", 1, first=50, note="bro\N{REPLACEMENT CHARACTER}ken")
    cluster.make_dead("orders", "g", 11)
    answer = do_all(crew, REPLAY)
    assert (answer["done"], answer["failed"]) == (10, 1)
    assert "UTF-8" in answer["failures"][0]["why"]
    assert do_all(crew, REPLAY)["failed"] == 1
    rows, _ = all_pages(crew.own, LETTERS, state=["open"])
    assert crew.own.post(REPLAY, {"sequences": named(*rows), "force": True}).json()["done"] == 1


def test_numbers_as_text() -> None:
    assert claims.runs_text([9, 3, 4, 5, 1]) == "1, 3-5, 9"
    assert claims.runs_text([]) == ""


def test_a_letter_tells_its_attempts_and_what_each_changed(cluster: ThreadedSystem, crew: Crew) -> None:
    cluster.consume("orders", "g", 20, settle="retry", at_once=True, attempts_max=2, consumer_id="c1")
    rows, _ = all_pages(crew.own, LETTERS)
    row = next(item for item in rows if item["message_id"] == "m5")
    where = f"{LETTERS}{row['broker_group']}/{row['sequence']}/"
    gone = crew.own.get(where).json()["story"]
    assert [(item["consumer_id"], item["why"]) for item in gone] == [
        (None, "the consumer has left, so only the key of its ID is known")
    ] * 2
    ClientSeen.objects.create(
        key="k", subject="orders", client_type=2, group="g", client_id="c1", last_seen_at=timezone.now()
    )
    before = len(audited("message.read"))
    found = crew.own.get(where).json()
    assert {name: found[name] for name in row} == row
    assert found["holes"] == []
    first, second = found["story"]
    assert [(item["attempt"], item["subject"], item["consumer_id"]) for item in found["story"]] == [
        (1, "orders", "c1"),
        (2, RETRY, "c1"),
    ]
    assert first["stored_at"] <= first["pulled_at"] <= first["ended_at"] == second["stored_at"] <= second["pulled_at"]
    assert second["ended_at"] == row["stored_at"]
    assert first["changes"] == []
    changed = {item["name"]: (item["before"], item["now"]) for item in second["changes"]}
    assert changed["qmq_times"] == (None, "2")
    assert changed["qmq_consumerGroupName"] == (None, "g")
    assert "n" not in changed
    assert {item["name"]: item["now"] for item in found["changes"]}["qmq_times"] == "3"
    assert len(audited("message.read")) == before + 1
    for client in (crew.viewer, crew.other):
        masked = client.get(where).json()
        assert (masked["properties"], masked["changes"]) == (None, None)
        assert [(item["properties"], item["changes"]) for item in masked["story"]] == [(None, None)] * 2
        assert masked["story"][0]["consumer_id"] == "c1"
    assert len(audited("message.read")) == before + 1
    for path in (f"{LETTERS}{row['broker_group']}/99999/", f"{LETTERS}none/1/", "/api/v1/dead-letters/none/g/g1/1/"):
        assert crew.own.get(path).status_code == 404, path


def test_attempts_on_a_broker_group_that_is_away_are_a_hole(
    cluster: ThreadedSystem, crew: Crew, letters: list[dict[str, Any]]
) -> None:
    home = letters[0]["broker_group"]
    away = "g2" if home == "g1" else "g1"
    cluster.stop_broker(away)
    found = crew.own.get(f"{LETTERS}{home}/{letters[0]['sequence']}/").json()
    assert any(hole.startswith(f"Broker group {away} could not be reached: ") for hole in found["holes"])


def test_downloads_are_masked_and_audited_as_reading_is(crew: Crew, letters: list[dict[str, Any]]) -> None:
    before = len(audited("message.read"))
    text = b"".join(crew.own.get(LETTERS, {"format": "csv"}).streaming_content).decode()  # type: ignore[attr-defined]
    assert len(list(csv.reader(io.StringIO(text)))) == 11
    assert "qmq_consumerGroupName" in text
    assert len(audited("message.read")) == before + 1
    for client in (crew.viewer, crew.other):
        text = b"".join(client.get(LETTERS, {"format": "csv"}).streaming_content).decode()  # type: ignore[attr-defined]
        assert len(text.splitlines()) == 11
        assert "qmq_consumerGroupName" not in text
    assert len(audited("message.read")) == before + 1
    counts = b"".join(crew.viewer.get(COUNTS, {"format": "json"}).streaming_content)  # type: ignore[attr-defined]
    assert json.loads(counts)["results"] == crew.viewer.get(COUNTS).json()["results"]


def test_a_download_of_messages_goes_through_all_pages_and_says_whom_it_could_not_ask(
    cluster: ThreadedSystem, crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MessagesView, "download_page_rows", 3)
    path = "/api/v1/subjects/orders/messages/"
    assert MessagesView.download_rows_max == ROWS_OF_NODES_MAX == 10_000

    def download() -> dict[str, Any]:
        answer = crew.own.get(path, {"format": "json"})
        assert answer.status_code == 200, answer.content
        found: dict[str, Any] = json.loads(b"".join(answer.streaming_content))  # type: ignore[attr-defined]
        return found

    before = len(audited("message.read"))
    found = download()
    assert (found["rows"], found["is_complete"]) == (10, True)
    assert found["results"] == all_pages(crew.own, path, limit=3)[0]
    entries = audited("message.read")[: len(audited("message.read")) - before]
    assert sum(entry.after["messages"] for entry in entries) == 20
    cluster.stop_broker("g2")
    found = download()
    assert (list(found["unreachable"]), found["is_complete"]) == (["g2"], False)
    assert found["notes"][0].startswith("g2 could not be reached: ")
