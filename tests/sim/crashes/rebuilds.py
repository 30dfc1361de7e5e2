"""A broker whose indexes are lost."""

from typing import Any

from broker_node.storage.oldest_sequence import adjust_begin
from broker_node.storage.store import MessageStore
from tests.support.disks.disk_work import repeat
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.logs import drop_before
from tests.support.drivers.replicas import state_of
from tests.support.drivers.store_driver import GROUP, StoreDriver

SEGMENT_BYTES = 16 * 1024


def known(store: MessageStore) -> tuple[dict[str, Any], dict[tuple[str, str], bytes]]:
    """What a rebuild has to keep, and the histories, of which it can only make the part that is in the log.

    Entries of messages that left with their segments don't count.
    """
    for subject in store.subjects.values():
        repeat(lambda plan, subject=subject: adjust_begin(store, subject))
    state = state_of(store)
    histories = {
        (name, group): entries
        for name, subject in state["subjects"].items()
        for group, entries in subject.pop("histories").items()
    }
    return {name: state[name] for name in ("subjects", "floor")}, histories


class Broker(StoreDriver):
    """A broker with a short retention, and a subject and group that are not used any more."""

    def __init__(self, seed: int) -> None:
        super().__init__(MemoryDisk(), seed, segment_bytes=SEGMENT_BYTES)
        for subject in ("idle", "left"):
            self.send(subject, 5)
            self.commit()
            self.pull(subject, "c1", 3)
            self.commit()
        self.ack("idle", "c1")
        self.commit()
        left = self.store.subjects["left"]
        self.store.forget_group(left, left.groups[GROUP])
        self.commit()

    def retain(self) -> None:
        """Make checkpoints, and remove what they do not need."""
        self.commit()
        self.checkpoint(is_serving=True)
        floor = self.store.log.watermark.position.offset
        self.checkpoint(is_serving=True)
        drop_before(self.store.log, floor)
