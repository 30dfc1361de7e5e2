"""Messages as the content of rows, and all that is no message."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmq.client.message import DUE_MS_MAX
from qmq.client.middleware import OutgoingMessage
from qmq.errors import ContentInvalid
from qmq.outbox.rows import content_of, entry_of, message_of
from qmq.protocol.frames import MESSAGE_BYTES_MAX
from qmq.protocol.messages import FLAG_DELAY, KEY_CREATED, KEY_SCHEDULE

NAMES = st.text("abcXYZ019._-", min_size=1, max_size=40).filter(lambda name: name[0].isalnum())
TEXTS = st.text(st.characters(codec="utf-8"), max_size=60)
KEYS = st.text(min_size=1, max_size=20).filter(lambda key: not key.startswith("qmq_"))
TAGS = st.lists(st.text("abc/é", min_size=1, max_size=10), max_size=5).map(tuple)


def content(**fields: Any) -> str:
    """The content of a valid row, apart from these fields; None: left out."""
    found = {"messageId": "m1", "subject": "s", "tags": [], "attrs": {"data": "x"}} | fields
    return json.dumps({key: value for key, value in found.items() if value is not None})


@given(
    subject=NAMES,
    message_id=NAMES | st.text('a"\\é', min_size=1, max_size=20),
    properties=st.dictionaries(KEYS, TEXTS, max_size=6),
    tags=TAGS,
    due_ms=st.none() | st.integers(0, DUE_MS_MAX),
    created_ms=st.integers(0, DUE_MS_MAX),
)
def test_a_message_comes_back_as_it_was_written(
    subject: str,
    message_id: str,
    properties: dict[str, str],
    tags: tuple[str, ...],
    due_ms: int | None,
    created_ms: int,
) -> None:
    properties = properties | {KEY_CREATED: str(created_ms)}
    if due_ms is not None:
        properties[KEY_SCHEDULE] = str(due_ms)
    written = content_of(OutgoingMessage(subject, message_id, properties, tags, due_ms))
    assert written.isascii()
    assert json.loads(written)["attrs"] == properties
    found = message_of(written, now_ms=1)
    assert (found.subject, found.message_id, found.tags) == (subject, message_id, tags)
    assert dict(found.properties) == properties
    assert (found.created_at_ms, found.flag) == (created_ms, 0 if due_ms is None else FLAG_DELAY)
    assert found.time_ms == (created_ms if due_ms is None else due_ms)


def test_numbers_and_truth_values_of_java_become_texts_as_they_are_written() -> None:
    written = (
        '{"messageId":"m","subject":"s","attrs":{"a":9007199254740993,"b":1.50,"c":true,"d":false,"e":null,"f":NaN}}'
    )
    assert message_of(written, 7).properties == {
        "a": "9007199254740993", "b": "1.50", "c": "true", "d": "false", "f": "NaN", KEY_CREATED: "7",
    }  # fmt: skip
    assert message_of(written, 7).created_at_ms == 7
    assert message_of(content(tags=None, attrs=None, other={"x": []}), 7).tags == ()


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "a JSON array, not an object"),
        ("null", "a JSON null, not an object"),
        ('"text"', "a JSON text, not an object"),
        (content(subject=None), "no subject"),
        (content(subject=""), "subject is '', not a text"),
        (content(subject=["s"]), "not a text"),
        (content(messageId=None), "no messageId"),
        (content(messageId={}), "not a text"),
        (content(subject="a.${env}.b"), r"unresolved placeholder"),
        (content(subject="no subject!"), "no subject!"),
        (content(subject="x" * 101), "100"),
        (content(tags="a"), "not a list of texts"),
        (content(tags=["a", {}]), "not a list of texts"),
        (content(attrs=["a"]), "attrs is a JSON array"),
        (content(attrs={"a": {}}), "property 'a' is a JSON object"),
        (content(attrs={"a": []}), "property 'a' is a JSON array"),
        (content(attrs={KEY_SCHEDULE: str(DUE_MS_MAX + 1)}), str(DUE_MS_MAX)),
        (content(attrs={KEY_SCHEDULE: -1}), "'-1'"),
        (content(attrs={KEY_SCHEDULE: "١٢"}), "milliseconds"),
        (content(attrs={KEY_CREATED: "soon"}), "'soon'"),
        (content(attrs={KEY_CREATED: "9" * 400_000}), "milliseconds"),
    ],
)  # fmt: skip
def test_what_is_no_message_is_refused_with_the_reason(written: str, text: str) -> None:
    with pytest.raises(ContentInvalid, match="(?s)" + text.replace("(", r"\(")) as raised:
        message_of(written, 0)
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"attrs": {str(number): "x" * 30_000 for number in range(300)}}, f"the limit is {MESSAGE_BYTES_MAX}"),
        ({"attrs": {"a": "x" * 70_000}}, "70000 bytes"),
        ({"attrs": {"a": "\ud800"}}, "surrogate|encode|UTF-8"),
        ({"messageId": "x" * 70_000}, "bytes|characters"),
        ({"tags": [f"{number}" for number in range(11)]}, "tags"),
    ],
)
def test_what_no_broker_accepts_is_refused_when_it_is_encoded(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ContentInvalid, match=text):
        entry_of(message_of(content(**fields), 0))
