"""Deliveries for tests of handlers alone."""

from datetime import UTC, datetime

import pytest

import qmq_testing
from qmq.errors import DeliveryAlreadySettled, LocalProtocolError
from qmq_testing import delivery


async def test_a_handler_settles_it() -> None:
    made = delivery({"order": 17}, subject="order.paid", group="billing", tags=["new"], attempt=2, retry_cause="Busy")
    assert (made.subject, made.group, made.tags, made.attempt) == ("order.paid", "billing", ("new",), 2)
    assert (made.properties, made.body, made.retry_cause) == ({"order": "17"}, None, "Busy")
    assert made.outcome is None
    async with made:
        assert not made.is_settled
    assert (made.outcome, made.cause, made.is_settled) == ("acked", "", True)
    with pytest.raises(DeliveryAlreadySettled):
        await made.ack()


async def test_a_handler_retries_it() -> None:
    made = delivery("text", message_id="m1", created_at=datetime(2026, 1, 2, tzinfo=UTC))
    assert (made.body, made.message_id, made.attempt) == ("text", "m1", 1)
    assert made.created_at == datetime(2026, 1, 2, tzinfo=UTC)
    with pytest.raises(ZeroDivisionError):
        async with made:
            _ = 1 / 0
    assert (made.outcome, made.cause) == ("retried", "ZeroDivisionError")
    assert delivery().message_id != delivery().message_id


def test_bodies_are_checked_as_in_a_producer() -> None:
    with pytest.raises(LocalProtocolError, match="reserved"):
        delivery({"qmq_times": "2"})


def test_public_names() -> None:
    for name in qmq_testing.__all__:
        assert getattr(qmq_testing, name).__name__ == name
    assert sorted(qmq_testing.__all__) == qmq_testing.__all__ == list(qmq_testing._HOME)
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        _ = qmq_testing.missing
