"""Commands about delayed messages: their bytes, and what is refused."""

import pytest

from qmq.errors import ProtocolError
from qmq.protocol.delayed import (
    TARGETS_MAX,
    CancelDelayedRequest,
    ChangeDelayedRequest,
    DelayedItem,
    DelayedPage,
    DelayedState,
    DelayedTarget,
    ListDelayedRequest,
    Operation,
)
from qmq.protocol.messages import Message, encode_raw
from qmq.protocol.primitives import encode_strmap

MESSAGE = Message("orders", "m1", {"a": "b"}, ("t",), 6, 1, 2)


def test_a_request_as_bytes() -> None:
    """The layout that other versions rely on: properties to match are behind the other entries."""
    query = ListDelayedRequest("orders", 5, 9, ("pending", "lost"), {"a": "b"}, 50, "5:1")
    entries = {
        "subject": "orders",
        "from_ms": "5",
        "to_ms": "9",
        "states": "pending,lost",
        "limit": "50",
        "cursor": "5:1",
        "filter": "",
    }
    assert query.encode() == encode_strmap({**entries, "match.a": "b"})
    assert CancelDelayedRequest(query, True).encode() == encode_strmap({"dry_run": "1"}) + query.encode()


def test_an_answer_as_bytes() -> None:
    raw = encode_raw(MESSAGE)
    page = DelayedPage((DelayedItem(7, DelayedState.PENDING, raw),), "c")
    entries = encode_strmap({"due_ms": "7", "state": "pending"})
    assert page.encode() == encode_strmap({"cursor": "c"}) + b"\0\0\0\x01" + entries + len(raw).to_bytes(4, "big") + raw
    (item,) = DelayedPage.decode(page.encode()).items
    assert (item.message, item.raw) == (MESSAGE, raw)


def test_an_answer_whose_bytes_are_no_message_is_refused() -> None:
    page = DelayedPage((DelayedItem(7, DelayedState.PENDING, encode_raw(MESSAGE)[:-1]),))
    with pytest.raises(ProtocolError, match="bytes of properties"):
        DelayedPage.decode(page.encode())


@pytest.mark.parametrize("word", ["", "stop"])
def test_an_operation_that_is_not_known_is_refused(word: str) -> None:
    body = encode_strmap({"operation": word, "due_ms": "1"}) + bytes(4)
    with pytest.raises(ProtocolError, match=f"operation is '{word}'; must be one of cancel, reschedule, deliver"):
        ChangeDelayedRequest.decode(body)


def test_a_change_of_too_many_is_refused() -> None:
    some = tuple(DelayedTarget(str(n)) for n in range(TARGETS_MAX + 1))
    with pytest.raises(ProtocolError, match="at most 1000"):
        ChangeDelayedRequest.decode(ChangeDelayedRequest(Operation.CANCEL, -1, some).encode())
