"""Settlements: the unacked messages of a consumer that left, fell silent or jumped over them go to the retry subject.

A settlement runs in slices, so that a consumer with many messages in flight delays no other. Each slice appends the messages
and behind them a SETTLE action for exactly their pull sequences, in the same commit or a later one: a crash at any point
repeats at most the messages of one slice, and loses none.

A settlement writes messages again, so it never uses the space that is reserved for acks and pulls. While there is no other
space, it is *deferred*: the messages stay with their consumer, and requests that would wait for the settlement do not.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice

from broker_node.delivery.retry_writer import BATCH_MESSAGES_MAX, Budget, move_to_retry
from broker_node.storage.actions import Settle
from broker_node.storage.disk_work import DiskWork
from broker_node.storage.progress import Consumer
from broker_node.storage.store import MessageStore
from broker_node.storage.subject import Group, Subject
from broker_node.storage.subject_table import LimitReached
from qmq.errors import LogError, NoSpace, QmqError
from qmq.supervisor import Supervisor
from qmq_node.commits.committer import Committer

logger = logging.getLogger("qmq.broker.settlement")

WAITING_MAX = 1_000
"""Requests of one consumer that wait for its settlement; more are refused."""


class Holder(Enum):
    """The consumer of a deferred settlement."""

    LEFT = "left"
    """It left. It is removed after its settlement."""
    SILENT = "silent"
    """It is silent, or the session that held the messages is."""
    LIVE = "live"
    """It is live, and its acks jumped over the messages."""


@dataclass(frozen=True, slots=True)
class Deferred:
    """A settlement that waits for space: the ranges of pull sequences [begin, end), and whose they are."""

    ranges: tuple[tuple[int, int], ...]
    holder: Holder


@dataclass(eq=False, repr=False)
class Settlement:
    """One consumer's messages in `ranges` of pull sequences [begin, end), on their way to the retry subject."""

    _store: MessageStore
    subject: Subject
    group: Group
    consumer: Consumer
    ranges: deque[tuple[int, int]]
    holder: Holder = Holder.SILENT
    is_running: bool = False
    settled: int = 0
    """Messages settled so far, those that could not be written again included."""
    plan: DiskWork | None = None
    """What was read from the disk for the next step."""
    _waiting: list[Callable[[QmqError | None], None]] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, str, str]:
        return self.subject.name, self.group.progress.group, self.consumer.consumer_id

    def then(self, callback: Callable[[QmqError | None], None]) -> None:
        """Call back when the settlement has ended, with its error if there was one. Raises LimitReached beyond WAITING_MAX."""
        if len(self._waiting) >= WAITING_MAX:
            raise LimitReached(f"{WAITING_MAX} requests wait until {self.consumer.consumer_id} is settled, the limit")
        self._waiting.append(callback)

    def ended(self, error: QmqError | None) -> None:
        """Call back what waits, in order."""
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback(error)

    def step(self, budget: Budget) -> bool:
        """Settle one slice; True when nothing is left to do.

        Raises DiskWork (set `plan` to it when it is finished) or NoSpace, both before any change, or LimitReached when the retry
        subject does not fit.
        """
        subject, group, consumer = self.subject, self.group, self.consumer
        progress, log = group.progress, consumer.log
        if subject.groups.get(progress.group) is not group:
            return True
        if progress.consumers.get(consumer.consumer_id) is not consumer:
            return True
        begin, end = self.ranges[0]
        runs = list(islice(log.between(begin, end), BATCH_MESSAGES_MAX))
        reached = end
        if runs:
            moved = move_to_retry(self._store, subject, group, runs, budget, self.plan)
            self.plan = None
            if moved.runs_done < len(runs):
                reached = runs[moved.runs_done].pull_begin + moved.part
            elif len(runs) == BATCH_MESSAGES_MAX:
                reached = runs[-1].pull_end
            now_ms, before = self._store.clock.wall_ms(), log.in_flight
            for low, high in log.held(begin, reached):
                settle = Settle(subject.name, progress.group, consumer.consumer_id, now_ms, False, low, high)
                self._store.act(subject, group, settle)
            self.settled += before - log.in_flight
            group.retried_total += moved.messages
        if reached < end:
            self.ranges[0] = (reached, end)
        else:
            self.ranges.popleft()
        return not self.ranges


class BeingSettled(Exception):
    """A request has to wait until its consumer is settled; then it is to be made again."""

    def __init__(self, settlement: Settlement) -> None:
        super().__init__(settlement.key)
        self.settlement = settlement


@dataclass(eq=False, repr=False)
class SettlementRunner:
    """Runs settlements on the event loop: one budget per batch for all of them, the next batch when that is on disk."""

    _store: MessageStore
    _committer: Committer
    _supervisor: Supervisor
    on_ended: Callable[[Settlement], None]
    """Called with a settlement that has ended, before what waits for it."""
    on_no_space: Callable[[Settlement, str], None]
    """Called before it with a settlement that ends because there is no space for its messages."""
    _ready: deque[Settlement] = field(default_factory=deque)
    _has_batch: bool = False
    """A batch is under way or scheduled."""
    _batches: int = 0
    _batches_seen: int = 0
    _is_stopped: bool = False

    def run(self, settlement: Settlement) -> None:
        """Begin a settlement, unless it is under way."""
        if settlement.is_running:
            return
        settlement.is_running = True
        self._ready.append(settlement)
        if not self._has_batch:
            self._run_batch()

    def resume(self) -> None:
        """Run a batch if none ran since the last call: called once a second, so that nothing rests on one callback."""
        if self._ready and self._batches == self._batches_seen:
            self._run_batch()
        self._batches_seen = self._batches

    def stop(self) -> None:
        """End all settlements where they are; the next start, or its sweep, settles the rest."""
        self._is_stopped = True
        ready, self._ready = self._ready, deque()
        for settlement in ready:
            self._end(settlement, _stopping())

    def _run_batch(self) -> None:
        # What a settlement's end begins waits for the next batch.
        self._has_batch = True
        self._batches += 1
        batch = self._batches
        budget = Budget()
        for _ in range(len(self._ready)):
            if budget.messages <= 0 or budget.bytes <= 0:
                break
            self._step(self._ready.popleft(), budget)
        self._committer.kick()
        self._has_batch = bool(self._ready)
        if self._ready:

            def next_batch() -> None:
                if batch == self._batches:
                    self._run_batch()

            def continue_later() -> None:
                self._supervisor.later(0, "settlement", next_batch)

            self._committer.when_synced(self._store.log.gather.records_end - 1, continue_later)

    def _step(self, settlement: Settlement, budget: Budget) -> None:
        try:
            is_done = settlement.step(budget)
        except DiskWork as work:
            self._read(settlement, work)
            return
        except NoSpace as problem:
            # What waits for it is handled again now, and does not wait for space.
            self.on_no_space(settlement, str(problem))
            self._end(settlement, None)
            return
        except (LogError, LimitReached) as error:
            self._failed(settlement, error)
            return
        except Exception as error:  # noqa: BLE001 - reported; this settlement ends, the others continue
            self._supervisor.report("settlement", error)
            self._failed(settlement, error)
            return
        if is_done:
            self._end(settlement, None)
        else:
            self._ready.append(settlement)

    def _failed(self, settlement: Settlement, error: Exception) -> None:
        subject, group, consumer_id = settlement.key
        logger.error(
            "group %s of %s: unacked messages of %s can't be retried and stay with it: %s",
            group, subject, consumer_id, error,
        )  # fmt: skip
        self._end(settlement, error if isinstance(error, QmqError) else LogError(str(error)))

    def _end(self, settlement: Settlement, error: QmqError | None) -> None:
        self.on_ended(settlement)
        settlement.ended(error)

    def _read(self, settlement: Settlement, work: DiskWork) -> None:
        """Read a settlement's next messages in a thread, then let it continue."""

        def ended(done: "asyncio.Task[None]") -> None:
            if done.cancelled() or self._is_stopped:
                self._end(settlement, _stopping())
                return
            try:
                done.result()
                more = work.finish()
            except Exception as error:  # noqa: BLE001 - the supervisor reported it; this settlement ends with it
                self._failed(settlement, error)
                return
            if more is not None:
                self._read(settlement, more)
                return
            settlement.plan = work
            self._ready.append(settlement)
            if not self._has_batch:
                self._run_batch()

        self._supervisor.background("settlement_read", asyncio.to_thread(work.read)).add_done_callback(ended)


def _stopping() -> LogError:
    return LogError("the node stops", code="broker.stopping")
