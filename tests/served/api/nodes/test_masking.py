"""Masking rules of a subject: what each role sees over every path of the API that shows messages, and what it can find."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from rest_framework.test import APIClient

from console.accounts.roles import RIGHTS_OF, Right, Role
from console.live.consumers import LiveApp
from metaserver.services import subjects
from qmq import Producer
from qmq.protocol.masking import HIDDEN
from qmq.protocol.masking.rules import READER_ROLES
from qmq.protocol.messages import set_large_string
from tests.served.api.nodes.crew import Crew
from tests.support.console.people import TESTER
from tests.support.console.websockets import opened
from tests.support.servers.threaded_system import ThreadedSystem

SUBJECT = "/api/v1/subjects/orders/"
MESSAGES = SUBJECT + "messages/"
DELAYED = "/api/v1/delayed-messages/"
FIND = "/api/v1/messages/"
LETTERS = "/api/v1/dead-letters/orders/g/"
PREVIEW = SUBJECT + "masking-preview/"
SECRET = "4111111111111111"
RULE = {"properties": ["card"], "json_paths": ["customer.email"], "roles": ["admin"], "how": "hide"}
BODY = {"card": SECRET, "n": "1", "data": json.dumps({"customer": {"email": SECRET, "name": "Ada"}})}
MASKED = {
    "card": HIDDEN,
    "n": "1",
    "data": json.dumps({"customer": {"email": HIDDEN, "name": "Ada"}}, ensure_ascii=False),
}


@pytest.fixture
def masked(cluster: ThreadedSystem, crew: Crew) -> Crew:
    """Subject `orders` with RULE, and a message, a dead letter and a delayed message with BODY."""

    async def send() -> None:
        async with Producer(cluster.meta_url, app="test") as producer:
            await producer.send("orders", BODY, message_id="secret")
            await producer.send("orders", BODY, message_id="later", due=datetime.now(UTC) + timedelta(hours=5))

    cluster.do(send)
    cluster.make_dead("orders", "g", 11, cause="bad card")
    subjects.update_subject("orders", {"masking": [RULE]}, actor=TESTER)
    return crew


def pages(client: APIClient) -> dict[str, Any]:
    """What each page shows of the message; by what it is."""
    (message,) = client.get(MESSAGES, {"message_id": "secret"}).json()["results"]
    place = f"{MESSAGES}{message['broker_group']}/{message['sequence']}/"
    letters = client.get(LETTERS, {"limit": 50}).json()["results"]
    (letter,) = [row for row in letters if row["message_id"] == "secret"]
    story = client.get(f"{LETTERS}{letter['broker_group']}/{letter['sequence']}/").json()
    found = client.get(FIND, {"message_id": "secret", "around": message["stored_at"]}).json()["results"]
    found = [row for row in found if row["subject"] == "orders"]
    retry = f"/api/v1/subjects/{'%25DEAD_RETRY%25orders%25g'}/messages/"
    return {
        "list": message,
        "one": client.get(place).json(),
        "trace": client.get(place + "trace/").json()["message"],
        "newest": client.get(MESSAGES, {"order": "newest", "limit": 1}).json()["results"][0],
        "search": client.get(MESSAGES + "search/", {"filter": 'id == "secret" && properties.n == "1"'}).json()[
            "results"
        ][0],
        "found": found[0],
        "dead letters": letter,
        "filtered dead letters": client.get(LETTERS, {"filter": "Ada"}).json()["results"][0],
        "dead letter": story,
        "attempt": story["story"][0],
        "dead-letter subject": client.get(retry, {"message_id": "secret"}).json()["results"][0],
        "delayed": client.get(DELAYED, {"subject": "orders"}).json()["results"][0],
        "all delayed": client.get(DELAYED).json()["results"][0],
        "one delayed": client.get(DELAYED + "message/", {"message_id": "later"}).json()["results"][0],
    }


def own(properties: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in properties.items() if name in BODY}


def test_each_page_shows_a_role_what_the_rules_leave(masked: Crew) -> None:
    for what, row in pages(masked.own).items():
        assert SECRET not in json.dumps(row), what
        assert own(row["properties"]) == MASKED, what
        assert not row["masked"], what
        marks = [(mark["property"], mark["rule"], mark["how"], mark["why"]) for mark in row["masked_values"]]
        assert marks == [("card", "card", "hide", None), ("data", "customer.email", "hide", None)], what
    for what, row in pages(masked.admin).items():
        assert own(row["properties"]) == BODY, what
        assert row["masked_values"] == [], what


@pytest.mark.parametrize("suffix", ["csv", "json"])
def test_exports_are_masked(masked: Crew, suffix: str) -> None:
    for url in (MESSAGES, LETTERS, DELAYED):
        answer = masked.own.get(url, {"format": suffix})
        text = b"".join(answer.streaming_content).decode() if answer.streaming else answer.content.decode()
        assert HIDDEN in text or "\\u2022" in text, url
        assert SECRET not in text, url


@pytest.mark.parametrize("filter_text", ["", "Ada"])
def test_a_tail_is_masked_by_the_role_of_its_reader(cluster: ThreadedSystem, masked: Crew, filter_text: str) -> None:
    shown: dict[str, list[dict[str, Any]]] = {}

    async def watch() -> None:
        app = LiveApp()
        async with Producer(cluster.meta_url, app="test") as producer:
            for name, client in (("operator", masked.own), ("admin", masked.admin)):
                headers = [("authorization", client._credentials["HTTP_AUTHORIZATION"])]
                async with opened(app, f"/ws/tail/?subject=orders&filter={filter_text}", headers) as socket:
                    assert await socket.verdict() is None
                    messages: list[dict[str, Any]] = []
                    while not messages:
                        await producer.send("orders", BODY)
                        messages = [message for text in socket.sent for message in text.get("messages", ())]
                    shown[name] = messages

    async_to_sync(watch)()
    assert SECRET not in json.dumps(shown["operator"])
    assert own(shown["operator"][0]["properties"]) == MASKED
    assert {mark["rule"] for mark in shown["operator"][0]["masked_values"]} == {"card", "customer.email"}
    assert own(shown["admin"][0]["properties"]) == BODY


def test_a_search_does_not_reveal_what_is_masked(masked: Crew) -> None:
    search = MESSAGES + "search/"
    for text in (f"card={SECRET}", f'body.customer.email == "{SECRET}"', SECRET):
        assert masked.admin.get(search, {"filter": text}).json()["results"] != [], text
        assert masked.admin.get(LETTERS, {"filter": text}).json()["results"] != [], text
        assert masked.own.get(LETTERS, {"filter": text}).json()["results"] == [], text
        assert masked.admin.get(DELAYED, {"subject": "orders", "filter": text}).json()["results"] != [], text
        assert masked.own.get(DELAYED, {"subject": "orders", "filter": text}).json()["results"] == [], text
        found, nothing = (masked.own.get(search, {"filter": one}).json() for one in (text, "no=no"))
        same = ("results", "scanned", "total", "unreadable", "costly", "progress", "end")
        assert {name: found[name] for name in same} == {name: nothing[name] for name in same}, text
        assert (found["results"], found["costly"]) == ([], 0)
    left = {"subject": "orders", "filter": 'body.customer.name == "Ada"'}
    assert len(masked.own.get(DELAYED, left).json()["results"]) == 1
    for client, status in ((masked.own, 400), (masked.admin, 200)):
        listed = client.get(DELAYED, {"subject": "orders", "match": f"card={SECRET}"})
        cancel = {"subject": "orders", "match": {"card": SECRET}}
        counted = client.post(DELAYED + "bulk-cancel/?dry_run=true", cancel)
        assert (listed.status_code, counted.status_code) == (status, status)
        if status == 400:
            assert listed.json()["fields"] == {"match": "'card' is masked for you; search other properties"}
    assert masked.own.get(DELAYED, {"subject": "orders", "match": "n=1"}).status_code == 200


def test_whoever_cannot_read_messages_gets_nothing_of_them(masked: Crew) -> None:
    for what, row in pages_of_viewer(masked.viewer).items():
        assert (row["properties"], row["masked"], row["masked_values"]) == (None, True, []), what
        assert SECRET not in json.dumps(row), what


def pages_of_viewer(client: APIClient) -> dict[str, Any]:
    (message,) = client.get(MESSAGES, {"message_id": "secret"}).json()["results"]
    place = f"{MESSAGES}{message['broker_group']}/{message['sequence']}/"
    letter = client.get(LETTERS).json()["results"][0]
    return {"list": message, "trace": client.get(place + "trace/").json()["message"], "dead letters": letter}


def test_a_replay_sends_what_was_masked(cluster: ThreadedSystem, masked: Crew) -> None:
    row = pages(masked.own)["dead letters"]
    answer = masked.own.post(LETTERS + "replay/", {"sequences": {row["broker_group"]: [row["sequence"]]}})
    assert (answer.status_code, answer.json()["done"]) == (200, 1)
    (delivery,) = [one for one in cluster.consume("orders", "g", 1) if one.properties.get("card")]
    assert delivery.properties["card"] == SECRET


def test_what_is_masked_for_the_sender_is_not_sent_again(cluster: ThreadedSystem, masked: Crew) -> None:
    rows = masked.own.get(MESSAGES, {"order": "newest", "limit": 2}).json()["results"]
    places = [{name: row[name] for name in ("broker_group", "sequence")} for row in rows]
    for query in ("", "?dry_run=true"):
        refused = masked.own.post(f"{MESSAGES}resend/{query}", {"messages": places})
        assert (refused.status_code, refused.json()["code"]) == (403, "message.masked")
        assert "card, data" in refused.json()["detail"]
    assert masked.admin.post(MESSAGES + "resend/?dry_run=true", {"messages": places}).json()["failed"] == 0
    rules = [RULE, {"json_paths": ["nothing"], "roles": []}]
    subjects.update_subject("orders", {"masking": rules}, actor=TESTER)
    text, large = json.dumps({"text": "x" * 100_000}), {"n": "1"}
    set_large_string(large, "data", text)

    async def send() -> None:
        async with Producer(cluster.meta_url, app="test") as producer:
            await producer.send("orders", large, message_id="large")

    cluster.do(send)
    (row,) = masked.own.get(MESSAGES, {"message_id": "large"}).json()["results"]
    body = {"messages": [{name: row[name] for name in ("broker_group", "sequence")}]}
    (sent,) = masked.own.post(MESSAGES + "resend/", body).json()["results"]
    (copy,) = masked.own.get(MESSAGES, {"message_id": sent["message_id"]}).json()["results"]
    assert copy["properties"]["data"] == text


def test_what_is_masked_for_the_sender_is_neither_edited_nor_sent_elsewhere(masked: Crew) -> None:
    (letter,) = [
        row for row in masked.own.get(LETTERS, {"limit": 50}).json()["results"] if row["message_id"] == "secret"
    ]
    one = {"sequences": {letter["broker_group"]: [int(letter["sequence"])]}}
    bodies = (
        {**one, "to": "other", "other_subject": "orders"},
        {**one, "edit": {"properties": {"n": "2"}, "tags": []}},
    )
    for body in bodies:
        refused = masked.own.post(LETTERS + "replay/?dry_run=true", body)
        assert (refused.status_code, refused.json()["code"]) == (403, "message.masked"), body
        assert SECRET not in refused.content.decode()
    original = {"subject": "orders", "broker_group": letter["broker_group"], "sequence": 0}
    copy = {"properties": {"n": "2"}, "copy_of": original}
    refused = masked.own.post(MESSAGES + "?dry_run=true", copy)
    assert (refused.status_code, refused.json()["code"]) == (403, "message.masked")
    assert masked.admin.post(MESSAGES + "?dry_run=true", copy).status_code == 200


def test_only_administrators_change_the_rules(masked: Crew) -> None:
    for client, status in ((masked.own, 403), (masked.viewer, 403), (masked.admin, 200)):
        answer = client.patch(SUBJECT, {"masking": []})
        assert answer.status_code == status
    assert masked.own.patch(SUBJECT, {"masking": []}).status_code == 200, "no change"
    subjects.update_subject("orders", {"masking": [RULE]}, actor=TESTER)
    document = {"subjects": [{"name": "orders", "masking": [RULE], "description": "x"}]}
    assert masked.own.put("/api/v1/apply/?dry_run=true", document).status_code == 200
    del document["subjects"][0]["masking"][0]["roles"]  # type: ignore[attr-defined]
    assert masked.own.put("/api/v1/apply/?dry_run=true", document).status_code == 403
    assert masked.admin.put("/api/v1/apply/?dry_run=true", document).status_code == 200


def test_a_preview_shows_the_newest_message_as_a_role_would_see_it(cluster: ThreadedSystem, masked: Crew) -> None:
    cluster.send("orders", 1, first=50, card="12345678")

    def preview(role: str, *rules: dict[str, Any]) -> dict[str, Any]:
        answer = masked.admin.get(PREVIEW, {"role": role, "masking": json.dumps(rules)})
        assert answer.status_code == 200, answer.content
        found: dict[str, Any] = answer.json()["message"]
        assert found["message_id"] == "m50"
        return found

    last4 = {"properties": ["card"], "roles": ["admin"], "how": "last4"}
    assert preview("operator", last4)["properties"]["card"] == HIDDEN + "5678"
    assert preview("admin", last4)["properties"]["card"] == "12345678"
    assert preview("operator", {"properties": ["nothing"]})["masked_values"] == []
    everything = preview("operator", {"properties": ["*"]})
    assert {value for name, value in everything["properties"].items() if not name.startswith("qmq_")} == {HIDDEN}
    assert masked.own.get(PREVIEW, {"role": "operator", "masking": "[]"}).status_code == 403
    for query in ({"role": "viewer", "masking": "[]"}, {"role": "admin", "masking": "["}, {"role": "admin", "masking": "1"},
                  {"role": "admin", "masking": '[{"properties": ["a"], "x": 1}]'}):  # fmt: skip
        assert masked.admin.get(PREVIEW, query).status_code == 400


def test_roles_that_can_be_exempt_are_those_that_can_read_messages() -> None:
    assert {role for role in Role if Right.READ_MESSAGES in RIGHTS_OF[role]} == set(READER_ROLES)
