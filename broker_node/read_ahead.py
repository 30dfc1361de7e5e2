"""class ReadAhead: messages are read for the pulls that will probably come next, while the event loop waits for a sync."""

from dataclasses import dataclass, field

from broker_node.disk_work import DiskWork
from broker_node.reader import Messages, Wanted, read_messages
from broker_node.store import MessageStore
from broker_node.subject import Group, Subject
from qmq.errors import LogError

AHEAD_MESSAGES_MAX = 256
"""Messages read during one sync; reading so many takes about as long as the sync of a fast disk, 100 us."""
AHEAD_BYTES_MAX = 256 << 10
"""Bytes of these messages."""


@dataclass(slots=True)
class _Pulls:
    """Pulls of a group between two reads ahead, each of which got as many messages as it asked for."""

    subject: Subject
    limit: int
    times: int = 0


@dataclass(eq=False, repr=False, slots=True)
class ReadAhead:
    """What consumers of a backlog are expected to pull next.

    A group whose consumers pulled full batches before the last sync, and again before this one, is expected to pull as often after
    it. What is not pulled by the next sync is read in vain, and dropped then.
    """

    _store: MessageStore
    _pulls: dict[Group, _Pulls] = field(default_factory=dict)
    _pulls_before: dict[Group, _Pulls] = field(default_factory=dict)
    _read: dict[tuple[Group, int], Messages] = field(default_factory=dict)
    """By group and first sequence."""

    @property
    def is_due(self) -> bool:
        """Whether there may be something to read."""
        return bool(self._pulls)

    def note(self, subject: Subject, group: Group, wanted: Wanted) -> None:
        """Count a pull that got as many messages as it wanted."""
        if wanted.match is None and not wanted.delay_ms:
            pulls = self._pulls.get(group)
            if pulls is None or pulls.limit != wanted.count:
                pulls = self._pulls[group] = _Pulls(subject, wanted.count)
            pulls.times += 1

    def take(self, group: Group, wanted: Wanted) -> Messages | None:
        """Return what a pull wants, if it was read."""
        messages = self._read.pop((group, wanted.ranges[0][0]), None)
        if messages is None or wanted.match is not None or wanted.delay_ms or len(messages.raws) != wanted.count:
            return None
        return messages if wanted.bytes_max >= AHEAD_BYTES_MAX else None

    def read(self) -> None:
        """Read what is expected to be pulled next, as far as it is in the page cache."""
        self._read.clear()
        before, self._pulls_before = self._pulls_before, self._pulls
        self._pulls = {}
        messages_left, bytes_left = AHEAD_MESSAGES_MAX, AHEAD_BYTES_MAX
        for group, pulls in self._pulls_before.items():
            at, times = group.progress.next_sequence, min(pulls.times, before[group].times if group in before else 0)
            while times and pulls.limit <= messages_left and at + pulls.limit <= pulls.subject.visible_end:
                wanted = Wanted(((at, at + pulls.limit),), pulls.limit, bytes_left)
                try:
                    found = read_messages(self._store, pulls.subject, wanted)
                except (DiskWork, LogError):
                    # The pull itself reads in a thread, or fails.
                    break
                size = sum(map(len, filter(None, found.raws)))
                if len(found.raws) < pulls.limit or size > bytes_left:
                    return
                self._read[group, at] = found
                messages_left, bytes_left = messages_left - pulls.limit, bytes_left - size
                at, times = at + pulls.limit, times - 1
