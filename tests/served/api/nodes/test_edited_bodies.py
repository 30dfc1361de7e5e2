"""Edited copies of messages and dead letters whose bodies have a format, over REST, against real nodes."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from console.cluster.dead_letters import orders, sending
from console.cluster.edited_bodies import FORM_KEYS, as_stored
from console.models import DeadLetterDecision
from metaserver import queries
from metaserver.services import subjects
from qmq import Producer
from qmq.client.bodies import body_bytes, encode_body
from qmq.formats import BodyFormat, decode, encode
from tests.served.api.nodes.crew import Crew
from tests.support.console.people import TESTER
from tests.support.servers.threaded_system import ThreadedSystem

MESSAGES = "/api/v1/subjects/orders/messages/"
LETTERS = "/api/v1/dead-letters/orders/g/"
DELAYED = "/api/v1/delayed-messages/"
RETRY = "%RETRY%orders%g"
SCHEMA = {"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "string"},
    {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
]}  # fmt: skip
AVRO = BodyFormat("avro", json.dumps(SCHEMA))
BODY = encode(AVRO, json.dumps({"id": "A-17" * 500, "total": "12.50"}), b"")
EDITED = {"id": "A-18", "total": "0.07"}
WRONG = "data: field total must be a text with a number of at most 2 decimal places and 10 digits"


@pytest.fixture
def avro(cluster: ThreadedSystem, crew: Crew) -> Crew:
    """Subject `orders` with a schema, and a compressed message, a dead letter and a delayed message with BODY."""

    async def send() -> None:
        async with Producer(cluster.meta_url, app="test", compress_above=500) as producer:
            await producer.send("orders", BODY, message_id="avro")
            await producer.send("orders", BODY, message_id="later", due=datetime.now(UTC) + timedelta(hours=5))

    cluster.do(send)
    cluster.make_dead("orders", "g", 11)
    subjects.update_subject("orders", {"body_format": "avro", "body_schema": AVRO.schema}, actor=TESTER)
    return crew


def stored(cluster: ThreadedSystem, subject: str, message_id: str) -> Any:
    """The body of a stored message, and its content type and encoding."""
    (message,) = [one for one in cluster.small.stored(subject) if one.message_id == message_id]
    form = [message.properties.get(f"qmq_content{name}") for name in ("Type", "Encoding")]
    return json.loads(decode(AVRO, body_bytes(message.properties) or b"")), form


def test_an_edited_copy_has_the_format_of_its_subject(cluster: ThreadedSystem, avro: Crew) -> None:
    (row,) = avro.own.get(MESSAGES, {"message_id": "avro"}).json()["results"]
    assert row["decoding"] == {"format": "avro", "problem": None}
    origin = {"subject": "orders", "broker_group": row["broker_group"], "sequence": row["sequence"]}
    for query in ("?dry_run=true", ""):
        wrong = {"properties": {"data": json.dumps({"id": "A-18", "total": 1})}, "copy_of": origin}
        refused = avro.own.post(MESSAGES + query, wrong)
        assert (refused.status_code, refused.json()["code"]) == (400, "message.invalid")
        assert refused.json()["fields"]["properties"].startswith(WRONG)
    assert list(queries.audit_entries().filter(action="message.send")) == []
    copy = {"properties": {"data": json.dumps(EDITED), "n": "2"}, "copy_of": origin}
    assert avro.own.post(MESSAGES + "?dry_run=true", copy).status_code == 200
    sent = avro.own.post(MESSAGES, copy).json()
    assert stored(cluster, "orders", sent["message_id"]) == (EDITED, ["application/octet-stream", "base64"])
    later = avro.own.post(MESSAGES, copy | {"delay_seconds": 3_600}).json()
    (shown,) = avro.own.get(DELAYED + "message/", {"message_id": later["message_id"]}).json()["results"]
    assert (json.loads(shown["properties"]["data"]), shown["decoding"]["problem"]) == (EDITED, None)
    gone = copy | {"copy_of": origin | {"sequence": "99"}}
    refused = avro.own.post(MESSAGES + "?dry_run=true", gone)
    assert (refused.status_code, refused.json()["code"]) == (404, "message.unknown")
    reserved = copy | {"properties": {"qmq_times": "1"}}
    assert avro.own.post(MESSAGES + "?dry_run=true", reserved).status_code == 400


def test_an_edited_replay_has_the_format_of_its_subject(cluster: ThreadedSystem, avro: Crew) -> None:
    letters = avro.own.get(LETTERS, {"limit": 50}).json()["results"]
    (letter,) = [row for row in letters if row["message_id"] == "avro"]
    one = {"sequences": {letter["broker_group"]: [letter["sequence"]]}}
    for query in ("?dry_run=true", ""):
        wrong = one | {"edit": {"properties": {"data": json.dumps({"id": "A-18", "total": "x"})}, "tags": []}}
        refused = avro.own.post(f"{LETTERS}replay/{query}", wrong)
        assert (refused.status_code, refused.json()["code"]) == (400, "message.invalid")
        assert refused.json()["fields"]["properties"].startswith(WRONG)
    assert DeadLetterDecision.objects.count() == 0
    edit = one | {"edit": {"properties": {"data": json.dumps(EDITED), "n": "2"}, "tags": []}}
    assert avro.own.post(LETTERS + "replay/?dry_run=true", edit).json()["done"] == 1
    assert avro.own.post(LETTERS + "replay/", edit).json()["done"] == 1
    (copy,) = [message for message in cluster.small.stored(RETRY) if message.message_id.startswith("replay.")]
    assert stored(cluster, RETRY, copy.message_id) == (EDITED, ["application/octet-stream", "base64"])
    assert copy.properties["n"] == "2"
    (entry,) = queries.audit_entries().filter(action="dead_letter.replay")
    assert entry.after["edited_properties"] == ["data", "n"]


def test_a_body_that_was_not_edited_is_replayed_as_it_is(cluster: ThreadedSystem, avro: Crew) -> None:
    letters = avro.own.get(LETTERS, {"limit": 50}).json()["results"]
    (letter,) = [row for row in letters if row["message_id"] == "avro"]
    edit = {"properties": {"data": letter["properties"]["data"], "n": "2"}, "tags": []}
    body = {"sequences": {letter["broker_group"]: [letter["sequence"]]}, "edit": edit}
    assert avro.own.post(LETTERS + "replay/", body).json()["done"] == 1
    (copy,) = [message for message in cluster.small.stored(RETRY) if message.message_id.startswith("replay.")]
    (original,) = [message for message in cluster.small.stored("orders") if message.message_id == "avro"]
    assert copy.properties["qmq_contentEncoding"] == "zstd+base64"
    assert copy.properties["data"] == original.properties["data"]
    (entry,) = queries.audit_entries().filter(action="dead_letter.replay")
    assert entry.after["edited_properties"] == ["n"]


def test_a_copy_without_a_body_does_not_describe_one() -> None:
    stored = {"message_id": "m", "tags": [], "properties": encode_body(BODY) | {"n": "1", "qmq_appCode": "shop"}}
    properties, form = as_stored({"n": "2"}, stored, AVRO)
    order = orders.Order("orders", "g", "replay", "subject", False, TESTER, edit=orders.Edit(properties, [], form))
    copy = sending.copy_of(order, stored, "copy", now_ms=1)
    assert copy.properties.keys() & {"data", "n", *FORM_KEYS} == {"n"}
    assert copy.properties["qmq_appCode"] == "shop"


def test_delayed_messages_are_decoded_before_they_are_filtered(avro: Crew) -> None:
    for query in ({"subject": "orders", "filter": 'body.total == "12.50"'}, {"subject": "orders"}, {}):
        (row,) = avro.own.get(DELAYED, query).json()["results"]
        assert json.loads(row["properties"]["data"])["total"] == "12.50", query
        assert row["decoding"] == {"format": "avro", "problem": None}
    assert avro.own.get(DELAYED, {"subject": "orders", "filter": 'body.total == "1"'}).json()["results"] == []
