"""Messages on a test server have the bodies that a consumer's deliveries have."""

from dataclasses import dataclass

from qmq.client.bodies import encode_body
from qmq.protocol.messages import Message
from qmq_testing import StoredMessage


@dataclass
class Order:
    number: int


def test_a_stored_message_has_a_body_of_every_kind() -> None:
    def stored(body: object) -> StoredMessage:
        return StoredMessage(Message("orders", "m1", {**encode_body(body), "qmq_createTime": "1", "traceparent": "x"}))  # type: ignore[arg-type]

    assert stored({"order": 17}).properties == {"order": "17"}
    assert stored("x" * 40_000).body == "x" * 40_000
    assert stored("é").content == "é".encode()
    assert (stored(b"\xff").body, stored(b"\xff").content) == (None, b"\xff")
    assert stored(Order(17)).decode(Order) == Order(17)
