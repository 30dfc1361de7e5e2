"""Delayed messages over REST, against real delay nodes."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from metaserver import queries
from qmq import Producer
from tests.served.api.nodes.crew import Crew
from tests.served.api.nodes.people import all_pages, give
from tests.support.servers.threaded_system import ThreadedSystem
from tests.support.waiting import eventually

LIST = "/api/v1/delayed-messages/"
DUE = (datetime.now(UTC) + timedelta(hours=5)).replace(minute=30, second=0, microsecond=0)


def audited(action: str) -> list[Any]:
    return list(queries.audit_entries().filter(action=action))


def delay(cluster: ThreadedSystem, count: int, *, step: timedelta = timedelta(0), subject: str = "orders") -> list[str]:
    """Messages d0.. of a subject; `kind` is "odd" or "even"."""

    async def work() -> list[str]:
        async with Producer(cluster.meta_url, app="test") as producer:
            for n in range(count):
                body = {"n": n, "kind": "odd" if n % 2 else "even"}
                await producer.send(subject, body, due=DUE + n * step, message_id=f"d{n}")
        return [f"d{n}" for n in range(count)]

    return cluster.do(work)


@pytest.mark.parametrize("step", [timedelta(0), timedelta(minutes=7)])
def test_pages_in_the_order_of_due_times(cluster: ThreadedSystem, crew: Crew, step: timedelta) -> None:
    """Also when many are due in the same millisecond, and over two delay groups."""
    cluster.start_second_delay_group()
    ids = delay(cluster, 23, step=step)
    rows, pages = all_pages(crew.own, LIST, subject="orders", limit=4)
    assert len(rows) == 23
    assert {row["message_id"] for row in rows} == set(ids), "none lost, none twice"
    assert {row["delay_group"] for row in rows} == {"d1", "d2"}
    assert [row["due_at"] for row in rows] == sorted(row["due_at"] for row in rows)
    assert len(pages) == 6
    assert rows[0]["state"] == "pending"
    assert rows[0]["properties"]["kind"] in ("odd", "even")
    assert len(audited("message.read")) == 6
    wanted = {"subject": "orders", "due_from": DUE.isoformat(), "due_to": (DUE + timedelta(minutes=8)).isoformat()}
    assert len(crew.own.get(LIST, wanted).json()["results"]) == (2 if step else 23)
    assert len(crew.own.get(LIST, wanted | {"match": "kind=odd"}).json()["results"]) == (1 if step else 11)
    assert crew.own.get(LIST, wanted | {"state": "delivered"}).json()["results"] == []


def test_a_message_that_went_meanwhile_loses_no_other(cluster: ThreadedSystem, crew: Crew) -> None:
    delay(cluster, 6)
    first = crew.own.get(LIST, {"subject": "orders", "limit": 3}).json()
    last = first["results"][-1]["message_id"]
    assert crew.own.post(LIST + "cancel/", {"message_id": last}).status_code == 200
    rest, _ = all_pages(crew.own, LIST, subject="orders", cursor=first["next"])
    second = crew.own.get(LIST, {"subject": "orders", "cursor": first["next"]}).json()
    shown = [row["message_id"] for row in first["results"] + second["results"]]
    assert set(shown) == {f"d{n}" for n in range(6)}
    assert rest


def test_a_replayed_cancellation_asks_for_the_right_on_the_subject_again(cluster: ThreadedSystem, crew: Crew) -> None:
    delay(cluster, 1)
    answers = [crew.own.post(f"{LIST}cancel/", {"message_id": "d0"}, HTTP_IDEMPOTENCY_KEY="k") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[1].headers["Idempotent-Replayed"] == "true"
    give("orders", "else")
    assert crew.own.post(f"{LIST}cancel/", {"message_id": "d0"}, HTTP_IDEMPOTENCY_KEY="k").status_code == 403


def test_contents_are_for_those_who_may_read_them(cluster: ThreadedSystem, crew: Crew) -> None:
    delay(cluster, 2)
    for client in (crew.viewer, crew.other):
        rows = client.get(LIST, {"subject": "orders"}).json()["results"]
        assert [(row["masked"], row["properties"]) for row in rows] == [(True, None)] * 2
        assert client.get(LIST + "message/", {"message_id": "d0"}).json()["results"][0]["masked"]
        assert client.get(LIST, {"subject": "orders", "match": "n=1"}).status_code == 403
        for action, body in (("cancel", {}), ("deliver", {}), ("reschedule", {"delay_seconds": 60})):
            assert client.post(f"{LIST}{action}/", {"message_id": "d0", **body}).status_code == 403
        assert client.post(LIST + "bulk-cancel/", {"subject": "orders", "all": True, "expected": 2}).status_code == 403
    assert audited("message.read") == []
    assert not crew.own.get(LIST + "message/", {"message_id": "d0"}).json()["results"][0]["masked"]
    assert len(audited("message.read")) == 1


def test_all_subjects_are_listed_together(cluster: ThreadedSystem, crew: Crew) -> None:
    """Each row is masked, and can be changed, by its own subject's owner; readings are noted by subject."""
    delay(cluster, 3, step=timedelta(minutes=1))
    delay(cluster, 3, subject="free", step=timedelta(minutes=1))
    rows, pages = all_pages(crew.own, LIST, limit=4)
    assert [len(page["results"]) for page in pages] == [4, 2]
    assert sorted((row["subject"], row["message_id"]) for row in rows) == [
        (subject, f"d{n}") for subject in ("free", "orders") for n in range(3)
    ]
    assert [row["due_at"] for row in rows] == sorted(row["due_at"] for row in rows)
    assert {(row["subject"], row["masked"], row["may_change"]) for row in rows} == {
        ("orders", False, True),
        ("free", True, False),
    }
    assert {entry.target for entry in audited("message.read")} == {"orders"}
    unsaid = crew.own.get(LIST, {"match": "kind=odd"})
    assert (unsaid.status_code, unsaid.json()["fields"]) == (400, {"subject": "is required with match and filter"})


def test_one_message_is_cancelled_once_and_for_all(cluster: ThreadedSystem, crew: Crew) -> None:
    delay(cluster, 1)
    url, d0 = LIST + "cancel/", {"message_id": "d0"}
    dry = crew.own.post(url + "?dry_run=true", d0).json()
    assert (dry["dry_run"], dry["outcome"], dry["state_before"], dry["state"]) == (True, "done", "pending", "cancelled")
    assert crew.own.get(LIST + "message/", {"message_id": "d0"}).json()["results"][0]["state"] == "pending"
    done = crew.own.post(url, d0 | {"reason": "wrong price"}).json()
    assert (done["outcome"], done["state"], done["subject"]) == ("done", "cancelled", "orders")
    assert crew.own.post(url, d0).json()["outcome"] == "unchanged"
    late = crew.own.post(LIST + "deliver/", {"message_id": "d0"})
    assert (late.status_code, late.json()["code"]) == (409, "delayed.too_late")
    assert crew.own.post(LIST + "deliver/?dry_run=true", {"message_id": "d0"}).status_code == 409
    assert [(entry.target, entry.reason) for entry in audited("delayed.cancel")][-1] == ("orders", "wrong price")
    assert len(audited("delayed.deliver_failed")) == 1
    missing = crew.own.post(LIST + "cancel/", {"message_id": "nobody"})
    assert (missing.status_code, missing.json()["code"]) == (404, "delayed.unknown")
    assert crew.own.get(LIST + "message/", {"message_id": "nobody"}).status_code == 404


def test_a_message_is_moved_and_delivered(cluster: ThreadedSystem, crew: Crew) -> None:
    delay(cluster, 2)
    later = DUE + timedelta(days=1)
    url, d0 = LIST + "reschedule/", {"message_id": "d0"}
    assert crew.own.post(url + "?dry_run=true", d0 | {"due_at": later.isoformat()}).json()["outcome"] == "done"
    moved = crew.own.post(url, d0 | {"due_at": later.isoformat(), "was_due_at": DUE.isoformat(), "subject": "orders"})
    assert (moved.status_code, moved.json()["outcome"]) == (200, "done")
    assert datetime.fromisoformat(moved.json()["due_at"]) == later
    found = crew.own.get(LIST + "message/", {"message_id": "d0"}).json()["results"]
    assert {row["state"] for row in found} == {"moved", "pending"}
    again = crew.own.post(url, d0 | {"delay_seconds": 7200}).json()
    assert again["outcome"] == "done", "the copy that is pending is meant"
    for wrong in ({}, {"due_at": later.isoformat(), "delay_seconds": 1}, {"delay_seconds": -1}):
        assert crew.own.post(url, d0 | wrong).status_code == 400
    too_far = crew.own.post(url, d0 | {"due_at": "2099-01-01T00:00:00Z"})
    assert too_far.status_code == 400
    assert crew.own.post(LIST + "deliver/", {"message_id": "d1"}).json()["outcome"] == "done"
    eventually(lambda: "d1" in cluster.small.counts("orders"), what="the message is delivered")
    assert crew.own.post(LIST + "cancel/", {"message_id": "d1"}).status_code == 409


def test_an_id_of_two_subjects_needs_the_subject(cluster: ThreadedSystem, crew: Crew) -> None:
    delay(cluster, 1)
    delay(cluster, 1, subject="free")
    answer = crew.own.post(LIST + "cancel/", {"message_id": "d0"})
    assert (answer.status_code, answer.json()["code"]) == (409, "delayed.ambiguous")
    assert crew.own.post(LIST + "cancel/", {"message_id": "d0", "subject": "free"}).status_code == 403
    assert crew.own.post(LIST + "cancel/", {"message_id": "d0", "subject": "orders"}).status_code == 200
    rows = crew.own.get(LIST + "message/", {"message_id": "d0"}).json()["results"]
    assert {(row["subject"], row["state"], row["masked"]) for row in rows} == {
        ("orders", "cancelled", False),
        ("free", "pending", True),
    }


def test_many_are_cancelled_and_counted(cluster: ThreadedSystem, crew: Crew) -> None:
    delay(cluster, 20, step=timedelta(minutes=10))
    body = {"subject": "orders", "match": {"kind": "odd"}, "due_to": (DUE + timedelta(minutes=95)).isoformat()}
    url = LIST + "bulk-cancel/"
    dry = crew.own.post(url + "?dry_run=true", body).json()
    assert (dry["matched"], dry["cancelled"]) == (5, 0)
    unsaid = crew.own.post(url, body)
    assert (unsaid.status_code, list(unsaid.json()["fields"])) == (400, ["expected"])
    differs = crew.own.post(url, body | {"expected": 4})
    assert (differs.status_code, differs.json()["code"]) == (409, "delayed.count_differs")
    assert len(crew.own.get(LIST, {"subject": "orders"}).json()["results"]) == 20
    done = crew.own.post(url, body | {"expected": 5, "reason": "sale is over"}).json()
    assert (done["matched"], done["cancelled"], done["too_late"], done["unreachable"]) == (5, 5, 0, {})
    assert crew.own.post(url, body | {"expected": 0}).json()["cancelled"] == 0
    assert len(crew.own.get(LIST, {"subject": "orders"}).json()["results"]) == 15
    assert [entry.after["cancelled"] for entry in audited("delayed.bulk_cancelled")] == [0, 5]
    assert {entry.reason for entry in audited("delayed.bulk_cancel")} == {"", "sale is over"}
    for wrong in ({}, {"subject": "orders", "expected": 15}, body | {"all": True, "expected": 0}):
        assert crew.own.post(url, wrong).status_code == 400, "a filter, or all"
    assert crew.own.post(url, {"subject": "orders", "all": True, "expected": 15}).json()["cancelled"] == 15


def test_the_calendar_counts_by_hour(cluster: ThreadedSystem, crew: Crew) -> None:
    delay(cluster, 6, step=timedelta(minutes=20))
    delay(cluster, 1, subject="free")
    hours = crew.viewer.get(LIST + "calendar/", {"subject": "orders"}).json()["hours"]
    begin = DUE.replace(minute=0)
    assert [(datetime.fromisoformat(hour["hour"]), hour["pending"]) for hour in hours] == [
        (begin, 2),
        (begin + timedelta(hours=1), 3),
        (begin + timedelta(hours=2), 1),
    ]
    everything = crew.viewer.get(LIST + "calendar/").json()
    assert sum(hour["pending"] for hour in everything["hours"]) == 7
    query = {"due_from": (begin + timedelta(hours=1)).isoformat(), "due_to": (begin + timedelta(hours=2)).isoformat()}
    assert [hour["pending"] for hour in crew.viewer.get(LIST + "calendar/", query).json()["hours"]] == [3]


def test_a_delay_group_that_is_down_is_named(cluster: ThreadedSystem, crew: Crew) -> None:
    node = cluster.start_second_delay_group()
    delay(cluster, 12)
    rows = crew.own.get(LIST, {"subject": "orders"}).json()["results"]
    here, there = (next(row for row in rows if row["delay_group"] == name) for name in ("d1", "d2"))
    cluster.do(node.close)
    page = crew.own.get(LIST, {"subject": "orders"}).json()
    assert list(page["unreachable"]) == ["d2"]
    assert {row["delay_group"] for row in page["results"]} == {"d1"}
    assert list(crew.own.get(LIST + "calendar/").json()["unreachable"]) == ["d2"]
    assert list(crew.own.get(LIST + "message/", {"message_id": here["message_id"]}).json()["unreachable"]) == ["d2"]
    lost = crew.own.get(LIST + "message/", {"message_id": there["message_id"]}).json()
    assert (lost["results"], list(lost["unreachable"])) == ([], ["d2"]), "not known is not the same as not there"
    answer = crew.own.post(LIST + "cancel/", {"message_id": there["message_id"]})
    assert (answer.status_code, answer.json()["code"]) == (503, "delay.group_unreachable")
    assert crew.own.post(LIST + "cancel/", {"message_id": here["message_id"]}).json()["outcome"] == "done"
    left = sum(row["delay_group"] == "d1" for row in rows) - 1
    bulk = crew.own.post(LIST + "bulk-cancel/", {"subject": "orders", "all": True, "expected": left}).json()
    assert list(bulk["unreachable"]) == ["d2"]
    assert bulk["cancelled"] == left


@pytest.mark.parametrize(
    "query",
    [{"match": "n=1"}, {"subject": "orders", "state": "odd"}, {"subject": "orders", "cursor": "x"}, {"subject": "x" * 201},
     {"subject": "orders", "due_from": "tomorrow"}, {"subject": "orders", "match": "x"}],
)  # fmt: skip
def test_questions_that_make_no_sense_are_refused(crew_without_nodes: Crew, query: dict[str, Any]) -> None:
    assert crew_without_nodes.own.get(LIST, query).status_code == 400


RETRY = "%RETRY%orders%billing"


def test_delayed_retries_belong_to_the_owner_of_their_real_subject(cluster: ThreadedSystem, crew: Crew) -> None:
    """F-4: they were everybody's."""
    delay(cluster, 2, subject=RETRY)
    for client in (crew.viewer, crew.other):
        for query in ({"subject": RETRY}, {}):
            rows = client.get(LIST, query).json()["results"]
            assert [(row["masked"], row["properties"], row["may_change"]) for row in rows] == [(True, None, False)] * 2
        assert client.get(LIST + "message/", {"message_id": "d0"}).json()["results"][0]["masked"]
        assert client.get(LIST, {"subject": RETRY, "match": "n=1"}).status_code == 403
        for action, body in (("cancel", {}), ("deliver", {}), ("reschedule", {"delay_seconds": 60})):
            for dry in ("", "?dry_run=true"):
                assert (
                    client.post(f"{LIST}{action}/{dry}", {"message_id": "d0", "subject": RETRY, **body}).status_code
                    == 403
                )
        for dry in ("", "?dry_run=true"):
            assert (
                client.post(f"{LIST}bulk-cancel/{dry}", {"subject": RETRY, "all": True, "expected": 2}).status_code
                == 403
            )
    assert audited("message.read") == []
    assert queries.audit_entries().filter(action__startswith="delayed.").count() == 0
    rows = crew.own.get(LIST, {"subject": RETRY}).json()["results"]
    assert {(row["masked"], row["may_change"], row["state"]) for row in rows} == {(False, True, "pending")}
    assert crew.own.post(LIST + "cancel/", {"message_id": "d0"}).status_code == 200
    assert crew.own.post(LIST + "bulk-cancel/", {"subject": RETRY, "all": True, "expected": 1}).json()["cancelled"] == 1


def test_messages_of_subjects_that_do_not_exist_are_masked_and_left_alone(cluster: ThreadedSystem, crew: Crew) -> None:
    subject = "%RETRY%nothing%billing"
    delay(cluster, 1, subject=subject)
    for client in (crew.own, crew.other, crew.admin):
        [row] = client.get(LIST).json()["results"]
        assert (row["masked"], row["properties"], row["may_change"]) == (True, None, False)
        for action in ("cancel", "deliver"):
            refused = client.post(f"{LIST}{action}/", {"message_id": "d0"})
            assert (refused.status_code, refused.json()["code"]) == (404, "subject.unknown")
        assert client.post(LIST + "bulk-cancel/", {"subject": subject, "all": True, "expected": 1}).status_code == 404
    assert crew.viewer.post(LIST + "cancel/", {"message_id": "d0"}).status_code == 403
    assert crew.admin.post("/api/v1/subjects/", {"name": "nothing", "owner": "sales"}).status_code == 201
    assert crew.other.post(LIST + "cancel/", {"message_id": "d0"}).status_code == 403
    assert crew.own.post(LIST + "cancel/", {"message_id": "d0"}).status_code == 200


def test_a_page_of_many_subjects_is_one_audit_entry(cluster: ThreadedSystem, crew: Crew) -> None:
    """S10: each entry locks the row that every change needs."""
    for number in range(5):
        delay(cluster, 2, subject=f"s{number}")
        cluster.send(f"s{number}", 1)
    delay(cluster, 1, subject="free")
    delay(cluster, 1)
    assert len(crew.own.get(LIST).json()["results"]) == 12
    [entry] = audited("message.read")
    assert (entry.target, entry.after["messages"]) == ("6 subjects", 11)
    assert entry.after["subjects"] == {"orders": 1} | {f"s{number}": 2 for number in range(5)}
    assert crew.own.get(LIST, {"subject": "orders"}).status_code == 200
    entry = audited("message.read")[0]
    assert (entry.target, entry.after["subjects"]) == ("orders", {"orders": 1})


def test_a_subject_with_delayed_messages_only_exists_and_they_are_read(cluster: ThreadedSystem, crew: Crew) -> None:
    """Before the first of them is due."""
    delay(cluster, 1, subject="reminders")
    cluster.save_metadata()
    assert crew.own.get("/api/v1/subjects/reminders/").status_code == 200
    (row,) = crew.own.get(LIST, {"subject": "reminders"}).json()["results"]
    assert (row["state"], row["masked"], row["may_change"]) == ("pending", False, True)
    assert row["properties"]["kind"] == "even"
    assert crew.own.post(f"{LIST}cancel/", {"message_id": "d0", "subject": "reminders"}).json()["outcome"] == "done"


@pytest.mark.parametrize("message_id", ["calendar", "bulk-cancel", "a/b", "..", ".", "%2e%2e", " x", "ü?#", "message"])
def test_messages_with_any_id_are_shown_moved_and_cancelled(
    cluster: ThreadedSystem, crew: Crew, message_id: str
) -> None:
    """Also IDs that no path can carry, or that are words of the API."""

    async def send() -> None:
        async with Producer(cluster.meta_url, app="test") as producer:
            await producer.send("orders", {"n": 1}, due=DUE, message_id=message_id)

    cluster.do(send)
    one = {"message_id": message_id, "subject": "orders"}
    (row,) = crew.own.get(LIST + "message/", one).json()["results"]
    assert row["message_id"] == message_id
    assert crew.own.post(LIST + "reschedule/", one | {"delay_seconds": 7200}).json()["outcome"] == "done"
    assert crew.own.post(LIST + "cancel/", one).json()["state"] == "cancelled"
