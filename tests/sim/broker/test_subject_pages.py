"""Deletion of an empty subject on a node: when it is refused, what goes with it, and that it stays deleted."""

from pathlib import Path

import pytest

from broker_node.broker import Broker
from qmq.node_admin import NodeRefused
from qmq_node.policy import NodePolicy, SubjectPolicy
from tests.sim.broker.admin import DEAD, RETRY, admin_of
from tests.sim.broker.policies import enforce
from tests.support.drivers.in_process import connected, message, running_broker
from tests.support.manual_clock import ManualClock

CLOSED = NodePolicy.of({"orders": SubjectPolicy(closed=True)})


def empty(broker: Broker, *names: str) -> None:
    """As if retention had taken all messages."""
    for name in names:
        subject = broker.store.subjects[name]
        subject.consume_log.hide_before(subject.visible_end)


async def why_refused(broker: Broker) -> str:
    """The reason, the same in the preview and of the deletion."""
    admin = admin_of(broker)
    reason = (await admin.drop_preview("orders"))["reason"]
    with pytest.raises(NodeRefused) as refused:
        await admin.drop("orders")
    assert (refused.value.code, refused.value.status) == ("subject.not_empty", 409)
    assert str(refused.value) == f"orders {reason}"
    assert "orders" in broker.store.subjects
    return str(reason)


async def test_a_subject_that_is_open_holds_messages_or_is_read_is_not_deleted(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as client:
        await client.begin()
        assert not await client.send(message(0), message(1, RETRY), message(2, DEAD))
        assert (await client.pull())[1] == ["m0"]
        assert "still accepts messages" in await why_refused(broker)
        await enforce(broker, CLOSED)
        assert await why_refused(broker) == "holds 1 messages"
        empty(broker, "orders")
        assert await why_refused(broker) == f"holds 1 messages in {RETRY}"
        empty(broker, RETRY)
        assert await why_refused(broker) == f"holds 1 messages in {DEAD}"
        empty(broker, DEAD)
        assert await why_refused(broker) == "is read by 1 consumers of group g"
        clock.advance(broker.options.consumer_lease_seconds + 1)
        assert await admin_of(broker).drop("orders") == {"subject": "orders", "dropped": True, "groups": 1}
        assert broker.store.subjects == {}


async def test_a_deleted_subject_stays_deleted_and_begins_anew_above_its_old_sequences(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as client:
        await client.begin()
        assert not await client.send(message(0), message(1))
        await enforce(broker, CLOSED)
        empty(broker, "orders")
        await admin_of(broker).drop("orders")
        await enforce(broker, NodePolicy.of({}))
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as client:
        assert broker.store.subjects == {}
        await client.begin()
        assert not await client.send(message(2))
        assert (await client.pull())[1] == ["m2"]
        assert broker.store.subjects["orders"].begin == 2


@pytest.mark.parametrize(
    ("name", "code", "status"), [("none", "subject.unknown", 404), (RETRY, "subject.not_real", 400)]
)
async def test_what_is_not_there_or_not_real(tmp_path: Path, name: str, code: str, status: int) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        assert not await client.send(message(0, RETRY))
        for call in (admin_of(broker).drop_preview, admin_of(broker).drop):
            with pytest.raises(NodeRefused) as refused:
                await call(name)
            assert (refused.value.code, refused.value.status) == (code, status)
