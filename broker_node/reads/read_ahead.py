"""class ReadAhead: reads messages for the expected next pulls while a commit is synced."""

from dataclasses import dataclass, field

from broker_node.reads.message_reader import Messages, Wanted, read_messages
from broker_node.storage.disk_work import DiskWork
from broker_node.storage.store import MessageStore
from broker_node.storage.subject import Group, Subject
from qmq.errors import LogError

AHEAD_MESSAGES_MAX = 256
"""Most messages read during one sync. Reading them takes about as long as the sync of a fast disk, 100 us."""
AHEAD_BYTES_MAX = 256 << 10
"""Most bytes of these messages."""


@dataclass(slots=True)
class _Pulls:
    """Full pulls of a group since the last `read`: each returned as many messages as it requested."""

    subject: Subject
    limit: int
    times: int = 0


@dataclass(eq=False, repr=False, slots=True)
class ReadAhead:
    """Messages that consumers with a backlog are expected to pull next.

    A group whose consumers pulled full batches before the last sync, and again before this one, is expected to pull as often after
    it. Messages that are not pulled before the next sync are discarded.
    """

    _store: MessageStore
    _pulls: dict[Group, _Pulls] = field(default_factory=dict)
    _pulls_before: dict[Group, _Pulls] = field(default_factory=dict)
    _read: dict[tuple[Group, int], Messages] = field(default_factory=dict)
    """Messages of expected pulls, by group and first sequence."""

    @property
    def is_due(self) -> bool:
        """Whether groups have made full pulls since the last `read`."""
        return bool(self._pulls)

    def note(self, subject: Subject, group: Group, wanted: Wanted) -> None:
        """Count a full pull: it returned as many messages as it requested."""
        if wanted.match is None and not wanted.delay_ms:
            pulls = self._pulls.get(group)
            if pulls is None or pulls.limit != wanted.count:
                pulls = self._pulls[group] = _Pulls(subject, wanted.count)
            pulls.times += 1

    def take(self, group: Group, wanted: Wanted) -> Messages | None:
        """Return and remove the messages of a pull; None if they were not read ahead."""
        messages = self._read.pop((group, wanted.ranges[0][0]), None)
        if messages is None or wanted.match is not None or wanted.delay_ms or len(messages.raws) != wanted.count:
            return None
        return messages if wanted.bytes_max >= AHEAD_BYTES_MAX else None

    def read(self) -> None:
        """Read the messages of expected pulls that are in the page cache."""
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
                    # The pull reads them in a thread, or reports the error.
                    break
                size = sum(map(len, filter(None, found.raws)))
                if len(found.raws) < pulls.limit or size > bytes_left:
                    return
                self._read[group, at] = found
                messages_left, bytes_left = messages_left - pulls.limit, bytes_left - size
                at, times = at + pulls.limit, times - 1
