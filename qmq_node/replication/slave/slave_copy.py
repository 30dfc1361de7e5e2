"""class SlaveCopy: what a slave copies, as it is on its disk, and how far it is."""

import logging
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from qmq.clock import Clock
from qmq_node.log.copied_log import CopiedLog
from qmq_node.log.log import SegmentedLog
from qmq_node.process.copy_counters import CopyCounters
from qmq_node.replication.replica_state import ReplicaStateFile
from qmq_node.replication.rules.roles import Copying, CopyPhase
from qmq_node.replication.state_files import StateFiles, WantedBytes

COPY_BYTES_MIN = 64 << 20
"""A slave that lacks at least this much of what is below the high watermark copies instead of following: it does not sync each
commit, and confirms nothing. A member of the in-sync set never does, because it has everything below the high watermark."""
FOLLOW_BYTES_MAX = 8 << 20
"""A copying slave follows when it lacks, and has not applied, at most this much."""
RATE_SECONDS = 10.0
"""The rate of a copy is measured over this time."""

logger = logging.getLogger("qmq_node.replication.rules")


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """How far a copy is. Sizes in bytes."""

    phase: CopyPhase
    done_bytes: int
    total_bytes: int
    bytes_per_second: float
    seconds_left: float | None
    """None: unknown, because nothing arrives."""

    def report(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {**asdict(self), "phase": self.phase.value}


SaveState = Callable[[bytes], tuple[int, int]]
"""Stores a master's checkpoint as the one of this node, durably, in a thread that may wait for the disk. Returns the log offset
where it stands, and the one up to which it may hold records. Raises OSError, or LogError for one that can't be used."""


@dataclass(eq=False, repr=False)
class SlaveCopy:
    """Begins and ends the durable state in which many commits share a sync. On the event loop, except what says otherwise."""

    _replica: ReplicaStateFile
    _log: SegmentedLog
    copied: CopiedLog
    _clock: Clock
    _save_state: SaveState
    why_kept: Callable[[], str] = lambda: ""
    """Returns why the log may be neither replaced nor copied, whatever the master says; "" if the membership confirms it. A slave
    that counts as in sync does not begin to copy: it would confirm nothing any more."""
    files: StateFiles | None = None
    """What this kind of node copies beside the checkpoint; None: nothing."""
    counters: CopyCounters = field(default_factory=CopyCounters)
    is_copying: bool = field(init=False)
    """From the decision to copy until the end of the copy is on disk. What is on disk follows, in the thread that writes."""
    goal: int = field(default=0, init=False)
    """The highest high watermark that a master has stated."""
    applies: bool = field(init=False)
    """Whether commits are applied to the store. While the log is copied from its begin on, the store is not that of the log,
    not even when the copy is complete: the node has to open it again."""
    is_log_copied: bool = field(default=False, init=False)
    """Phase LOG is complete: the log and the state have to be opened."""
    _begin: int = field(default=0, init=False)
    """Where the log ended when the copy was begun or resumed."""
    _state_bytes: tuple[int, int] = field(default=(0, 0), init=False)
    """Of the master's state, or its files: how many are here, of how many."""
    _is_state_removed: bool = field(default=False, init=False)
    """Whether the master does not keep the state any more that was read."""
    _samples: deque[tuple[float, int]] = field(default_factory=deque, init=False)
    """Monotonic times, and how far the copy was then."""

    def __post_init__(self) -> None:
        self.is_copying = self._replica.state.copying is not None
        self.applies = self._phase not in (CopyPhase.STATE, CopyPhase.FILES, CopyPhase.LOG)
        self._begin = self._log.written_end

    @property
    def _phase(self) -> CopyPhase | None:
        copying = self._replica.state.copying
        return copying.phase if copying is not None else None

    def needs_state(self, epoch: int) -> bool:
        """Whether the state of the master of `epoch` has to be read first: there is none, or that of another epoch, or one that the
        master does not keep."""
        copying = self._replica.state.copying
        if copying is None or copying.phase not in (CopyPhase.STATE, CopyPhase.FILES, CopyPhase.LOG):
            return False
        return copying.phase is CopyPhase.STATE or copying.state_epoch != epoch or self._is_state_removed

    @property
    def needs_files(self) -> bool:
        """Whether the files that the stored state counts are not all here."""
        return self._phase is CopyPhase.FILES

    @property
    def state_offset(self) -> int:
        """The log offset of the state that is stored; 0 unless files and log are copied from their begin on."""
        copying = self._replica.state.copying
        return copying.state_offset if copying is not None else 0

    # --- decisions -------------------------------------------------------------------------------------------------

    def must_begin(self, received_end: int) -> bool:
        """Whether a slave that does not copy is so far behind that it has to from now on."""
        return self.goal - received_end >= COPY_BYTES_MIN and not self.why_kept()

    def may_end(self, applied_end: int) -> bool:
        """Whether the log is so close to the master's that the slave can follow, and serve soon if it is promoted."""
        return (
            self.is_copying and self.applies and self.goal - min(self._log.written_end, applied_end) <= FOLLOW_BYTES_MAX
        )

    def has_log(self) -> bool:
        """Whether all of the log is here that the state of the master may hold records of."""
        copying = self._replica.state.copying
        return copying is not None and copying.phase is CopyPhase.LOG and self._log.synced_end >= copying.end

    # --- the state on disk -----------------------------------------------------------------------------------------

    def store_log_id(self, log_id: str) -> None:
        """Make durable that this is the master's log from now on; in a thread. A master that states none changes nothing."""
        if log_id:
            self._replica.set_log_id(log_id)

    def begin(self) -> None:
        """Confirm nothing that is received from now on. `store_begin` has to follow, in the writing thread."""
        self.is_copying, self._begin = True, self._log.written_end
        self._samples.clear()

    def store_begin(self) -> None:
        """Make it durable; in the writing thread, behind all that is to be synced commit by commit. Raises OSError."""
        self.copied.sync_each()
        self._replica.set_copying(Copying(self._log.writer.end, self.goal))
        self.copied.is_copying = True

    def store_state(self, data: bytes, epoch: int, log_id: str) -> None:
        """Make the state of the master of `epoch` durable, then that its files, or the log, are copied next, or further; in the
        writing thread.

        After a crash in between, the state is read again. Raises LogError, OSError.
        """
        if self.files is not None:
            if self._replica.state.log_id not in ("", log_id):
                self.files.discard()
            self.store_log_id(log_id)
        offset, records_end = self._save_state(data)
        phase = CopyPhase.FILES if self.files is not None else CopyPhase.LOG
        self._replica.set_copying(Copying(0, records_end, phase, offset, epoch))
        self._is_state_removed = False

    def state_removed(self) -> None:
        """The master does not keep the state any more: the next session reads another one."""
        self._is_state_removed = True

    def copy_files(self) -> Generator[WantedBytes, bytes, None]:
        """As `StateFiles.copy`."""
        assert self.files is not None
        self._samples.clear()
        damaged = yield from self.files.copy()
        self.counters.damaged_entries += damaged
        if damaged:
            logger.error("%d entries of files are copied as they are: they are damaged at all members", damaged)

    def store_files(self) -> None:
        """Make durable that the files are complete, and the log is copied next; in the writing thread. Raises OSError."""
        copying = self._replica.state.copying
        assert copying is not None
        self._replica.set_copying(replace(copying, phase=CopyPhase.LOG))
        self._samples.clear()

    def store_log(self) -> None:
        """Make durable that log and state fit each other; in the writing thread. Raises OSError."""
        self.copied.sync()
        end = self._log.writer.end
        self._replica.set_copying(Copying(end, max(end, self.goal)))

    def store_end(self) -> None:
        """Sync the copy, and make durable that the log is followed from now on; in the writing thread. Raises OSError."""
        self.copied.sync()
        self._replica.end_copying(self._log)
        self.copied.is_copying = False

    def ended(self) -> None:
        """`store_end` has returned: what is synced may be confirmed."""
        self.is_copying = False

    def read(self, done: int, total: int) -> None:
        """So much of the master's state, or its files, is here."""
        self._state_bytes = done, total

    # --- progress --------------------------------------------------------------------------------------------------

    def sample(self) -> None:
        """Note how far the copy is; to be called periodically."""
        now = self._clock.monotonic()
        self._samples.append((now, self._state_bytes[0] if self.needs_files else self._log.written_end))
        while now - self._samples[0][0] > RATE_SECONDS:
            self._samples.popleft()

    @property
    def progress(self) -> CopyProgress | None:
        """How far the copy is; None while nothing is copied."""
        if not self.is_copying:
            return None
        phase = self._phase or CopyPhase.CATCHING_UP
        if phase is CopyPhase.STATE:
            return CopyProgress(phase, *self._state_bytes, 0.0, None)
        end, rate = self._log.written_end, self._rate
        if phase is CopyPhase.FILES:
            done, total = self._state_bytes
            return CopyProgress(phase, done, total, rate, (total - done) / rate if rate > 0 else None)
        left = max(0, self.goal - end)
        begin = max(self._begin, self._log.begin)
        done = max(0, end - begin)
        return CopyProgress(phase, done, done + left, rate, left / rate if rate > 0 else None)

    @property
    def _rate(self) -> float:
        """Bytes per second, measured recently."""
        if len(self._samples) < 2:
            return 0.0
        (began, begin), (ended, end) = self._samples[0], self._samples[-1]
        return (end - begin) / (ended - began) if ended > began else 0.0
