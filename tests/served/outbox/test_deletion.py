"""Rows that were sent are deleted, and never another row that has the ID of one, on a real database."""

import pytest

from qmq.outbox.dbapi import Outbox
from qmq.outbox.dialects import TABLE, key_of
from qmq.outbox.rows import message_of
from qmq.sync import Producer
from tests.support.outbox import Orders, ScriptedProducer, content
from tests.support.waiting import eventually

pytestmark = pytest.mark.database


@pytest.mark.parametrize(
    "message_id",
    ["m1", "ORDER-17 ", "größe", "订单" * 50, "\U0001f4e6" * 50, '"a" and "b"', 'a\\"b', "back\\slash\\", "x" * 100],
)
def test_a_row_is_known_by_the_message_id_in_its_content(orders: Orders, message_id: str) -> None:
    connection, statements = orders.connection, orders.statements
    sent = content("orders", message_id)
    assert message_of(sent, 0).message_id == message_id
    row_id, other_id = orders.add(sent, content("orders", "other"))
    others = {message_id.swapcase(), message_id + " ", message_id[:-1], f"{message_id}x", "", "other"} - {message_id}
    for other in others:
        assert connection.change(statements.delete_sent([row_id]), [key_of(content("orders", other))]) == 0
    assert connection.change(statements.delete_sent([row_id, other_id]), [key_of(sent)] * 2) == 1
    assert list(orders.rows()) == [other_id]


def test_a_new_row_with_the_id_of_a_sent_one_is_kept(
    orders: Orders, scripted: ScriptedProducer, producer: Producer
) -> None:
    """A replica that lacks the last rows gives their IDs to new ones when it becomes the primary."""
    scripted.held = {"lost"}
    with Outbox(orders.open, producer) as outbox:
        connection = orders.open()
        with outbox.transaction(connection) as transaction:
            transaction.send("lost", "1")
        connection.close()
        [respond] = eventually(lambda: scripted.waiting)
        [row_id] = orders.rows()
        orders.connection.change(f"UPDATE {TABLE} SET content = ? WHERE id = ?", [content("new", "m2"), row_id])
        respond()
        assert outbox.flush(60)
        assert list(orders.rows()) == [row_id]
