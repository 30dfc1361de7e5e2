"""Messages found by their IDs alone, and copies of stored messages, over REST, against real nodes."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from console.cluster.finding import created_at, windows_around
from console.cluster.producing import KEY_COPY_OF, KEY_USER
from console.cluster.resending import RESEND_MAX
from metaserver import queries
from metaserver.errors import ChangeRefused
from metaserver.services import subjects
from qmq.client.message import MessageIds
from tests.served.api.nodes.crew import Crew
from tests.served.api.nodes.people import all_pages
from tests.support.console.people import TESTER
from tests.support.manual_clock import ManualClock
from tests.support.servers.threaded_system import ThreadedSystem

FIND, ORDERS = "/api/v1/messages/", "/api/v1/subjects/orders/messages/"
CHINA = timezone(timedelta(hours=8))
AT = datetime(2026, 11, 21, 2, 32, 45, tzinfo=UTC)


def audited(action: str) -> list[Any]:
    return list(queries.audit_entries().filter(action=action))


# --- times of IDs -----------------------------------------------------------------------------------------------------


def test_ids_of_our_client_are_in_utc() -> None:
    clock = ManualClock(round(AT.timestamp() * 1000))
    assert created_at(MessageIds(clock)(), CHINA) == [AT]


def test_ids_of_the_official_client_are_in_utc_or_the_zone_of_its_machine() -> None:
    times = created_at("261121.023245.192.0.2.2.30508.5", CHINA)
    assert times == [AT, AT - timedelta(hours=8)]
    windows = windows_around(times)
    ms = round(AT.timestamp() * 1000)
    assert windows[0] == (ms - 5_000, ms + 60_000)
    assert windows[1] == (ms - 8 * 3_600_000 - 5_000, ms - 8 * 3_600_000 + 60_000), "near ones come first"
    own = sorted(window for window in windows if abs(window[0] - ms) < 3_600_000)
    assert [begin for begin, _ in own[1:]] == [end for _, end in own[:-1]], "no gap and no overlap"


@pytest.mark.parametrize("text", ["order-17", "261321.023245.a.1", "261121.023245", "", "261121.023245.a b"])
def test_ids_without_a_time_are_refused(text: str) -> None:
    with pytest.raises(ChangeRefused, match="specify around") as caught:
        created_at(text, UTC)
    assert caught.value.code == "message.id_untimed"


# --- found ------------------------------------------------------------------------------------------------------------


def test_a_message_is_found_in_any_subject(cluster: ThreadedSystem, crew: Crew) -> None:
    sent = crew.own.post(ORDERS, {"properties": {"a": "b"}}).json()
    results, pages = all_pages(crew.own, FIND, message_id=sent["message_id"], zone="Asia/Shanghai")
    (row,) = results
    assert (row["subject"], row["broker_group"], row["message_id"]) == (
        "orders", sent["broker_group"], sent["message_id"],
    )  # fmt: skip
    assert row["properties"]["a"] == "b"
    assert pages[0]["results"], "the likeliest window is searched first"
    progress = [page["progress"] for page in pages]
    assert progress == sorted(progress)
    assert progress[-1] == 1.0
    assert len(pages[0]["searched"]) == 3
    (entry,) = audited("message.read")
    assert (entry.target, entry.after["subjects"]) == (sent["message_id"], {"orders": 1})


def test_what_a_caller_may_not_read_is_masked(cluster: ThreadedSystem, crew: Crew) -> None:
    sent = crew.own.post(ORDERS, {"properties": {"a": "b"}}).json()
    for client in (crew.viewer, crew.other):
        (row,) = client.get(FIND, {"message_id": sent["message_id"]}).json()["results"]
        assert (row["masked"], row["properties"]) == (True, None)
    assert audited("message.read") == []


def test_an_id_of_another_format_is_found_around_a_time(cluster: ThreadedSystem, crew: Crew) -> None:
    refused = crew.own.get(FIND, {"message_id": "m3"})
    assert (refused.status_code, refused.json()["code"]) == (400, "message.id_untimed")
    stored = crew.own.get(ORDERS, {"message_id": "m3"}).json()["results"][0]
    query = {"message_id": "m3", "around": stored["stored_at"]}
    assert [row["sequence"] for row in crew.own.get(FIND, query).json()["results"]] == [stored["sequence"]]
    assert crew.own.get(FIND, {**query, "around": "2020-01-01T00:00:00Z"}).json()["results"] == []
    cursor = crew.own.get(FIND, query).json()["next"]
    assert crew.own.get(FIND, {**query, "around": "2020-01-01T00:00:00Z", "cursor": cursor}).status_code == 400


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"message_id": "x" * 101},
        {"message_id": "m1", "zone": "Middle/Earth"},
        {"message_id": "m1", "around": "now"},
    ],
)
def test_questions_that_make_no_sense_are_refused(crew_without_nodes: Crew, query: dict[str, str]) -> None:
    answer = crew_without_nodes.own.get(FIND, query)
    assert (answer.status_code, answer.json()["code"]) == (400, "request.invalid")


# --- sent again -------------------------------------------------------------------------------------------------------


def test_copies_are_sent_and_say_where_they_come_from(cluster: ThreadedSystem, crew: Crew) -> None:
    originals = crew.own.get(ORDERS, {"order": "oldest", "limit": 3}).json()["results"]
    places = [{name: row[name] for name in ("broker_group", "sequence")} for row in originals]
    gone = {"broker_group": "g1", "sequence": "999"}
    body = {"messages": [*places, places[0], gone], "reason": "lost downstream"}
    dry = crew.own.post(ORDERS + "resend/?dry_run=true", body).json()
    assert (dry["messages"], dry["failed"], dry["to_subject"]) == (3, 1, "orders")
    assert audited("message.resend") == []
    done = crew.own.post(ORDERS + "resend/", body).json()
    assert (done["dry_run"], done["messages"], done["failed"]) == (False, 3, 1)
    assert [bool(one["problem"]) for one in done["results"]] == [False, False, False, True]
    for original, result in zip(originals, done["results"], strict=False):
        (copy,) = crew.own.get(ORDERS, {"message_id": result["message_id"]}).json()["results"]
        assert copy["tags"] == original["tags"]
        assert copy["properties"]["n"] == original["properties"]["n"]
        assert copy["properties"][KEY_COPY_OF] == f"orders/{original['broker_group']}/{original['sequence']}"
        assert copy["properties"][KEY_USER].startswith("olga")
    (entry,) = audited("message.resend")
    assert (entry.target, entry.reason, entry.after["messages"]) == ("orders", "lost downstream", 3)
    copy_place = {"broker_group": copy["broker_group"], "sequence": copy["sequence"]}
    again = crew.own.post(ORDERS + "resend/", {"messages": [copy_place]}).json()["results"][0]
    (second,) = crew.own.get(ORDERS, {"message_id": again["message_id"]}).json()["results"]
    assert second["properties"][KEY_COPY_OF] == f"orders/{copy['broker_group']}/{copy['sequence']}"


def test_copies_go_to_another_subject_that_the_caller_may_send_to(cluster: ThreadedSystem, crew: Crew) -> None:
    row = crew.own.get(ORDERS).json()["results"][0]
    body = {"messages": [{"broker_group": row["broker_group"], "sequence": row["sequence"]}], "to_subject": "free"}
    before = sum(cluster.small.counts("free").values())
    assert crew.admin.post(ORDERS + "resend/", body).json()["messages"] == 1
    assert sum(cluster.small.counts("free").values()) == before + 1
    for client in (crew.viewer, crew.other):
        assert client.post(ORDERS + "resend/", body).status_code == 403
    assert crew.own.post(ORDERS + "resend/", {**body, "to_subject": "nobody"}).status_code == 404
    retry = crew.own.post(ORDERS + "resend/", {**body, "to_subject": "%RETRY%orders%g"})
    assert retry.json()["code"] == "subject.not_real"
    subjects.set_archived("orders", True, actor=TESTER)
    del body["to_subject"]
    assert crew.own.post(ORDERS + "resend/", body).json()["code"] == "subject.archived"


def test_only_so_many_are_sent_again_at_once(crew_without_nodes: Crew) -> None:
    places = [{"broker_group": "g1", "sequence": n} for n in range(RESEND_MAX + 1)]
    for wrong in (places, []):
        answer = crew_without_nodes.own.post(ORDERS + "resend/", {"messages": wrong})
        assert (answer.status_code, answer.json()["code"]) == (400, "request.invalid")


def test_an_edited_copy_says_where_it_comes_from(cluster: ThreadedSystem, crew: Crew) -> None:
    origin = {"subject": "orders", "broker_group": "g1", "sequence": "0"}
    sent = crew.own.post(ORDERS, {"properties": {"a": "c"}, "copy_of": origin}).json()
    (row,) = crew.own.get(ORDERS, {"message_id": sent["message_id"]}).json()["results"]
    assert row["properties"][KEY_COPY_OF] == "orders/g1/0"
    (entry,) = audited("message.send")
    assert entry.after["copy_of"] == "orders/g1/0"
    forged = crew.own.post(ORDERS, {"properties": {KEY_COPY_OF: "orders/g1/0"}})
    assert (forged.status_code, forged.json()["code"]) == (400, "message.invalid")
