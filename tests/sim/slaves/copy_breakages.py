"""Deliberate breakages of retention and of copies, as those of `breakages.py`."""

from dataclasses import replace
from random import Random

from tests.sim.slaves.breakages import CALM, SlavesBreakage

COPIES = replace(CALM, faults=("kill_member",), fault_seconds=1.5).with_retention(Random(1))

COPY_BREAKAGES = (
    SlavesBreakage(
        "retention on a master ignores slaves",
        "retention",
        (
            (
                "broker_node.serving:BrokerServing._retain",
                "floor=min(storage.checkpoints.floor, self._replication.retained_from())",
                "floor=storage.checkpoints.floor",
            ),
        ),
        COPIES,
        seed=4,
    ),
    SlavesBreakage(
        "a slave removes what its master has not removed",
        "retention",
        (
            (
                "broker_node.recovery.broker_data:BrokerData.retain_as_slave",
                "self.drop_before(storage, min(master_begin, storage.checkpoints.floor))",
                "self.drop_before(storage, storage.checkpoints.floor)",
            ),
        ),
        COPIES,
        seed=3,
    ),
    SlavesBreakage(
        "a copy is opened before it has all that its state holds",
        "damage",
        (
            (
                "qmq_node.replication.slave.slave_copy:SlaveCopy.has_log",
                "self._log.synced_end >= copying.end",
                "self._log.synced_end > 0",
            ),
        ),
        COPIES,
        seed=2,
    ),
    SlavesBreakage(
        "a copy ends before it is synced",
        "failure",
        (("qmq_node.replication.slave.slave_copy:SlaveCopy.store_end", "self.copied.sync()", "pass"),),
        COPIES,
        seed=15,
    ),
)
