"""A broker's store driven step by step without an event loop, with an oracle that knows what was promised.

The oracle holds what the outside world was told: sends answered, pulls answered, acks answered. `check` opens the store
again from what a crash left and holds it to C1 (nothing acked lost), C2 (nothing there that was never sent), C3 (content),
C4 (a pull sequence never stands for two messages).
"""

import functools
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from broker_node.delivery.delivery import Delivered, Delivery
from broker_node.delivery.retry_writer import Budget
from broker_node.delivery.settlement import BeingSettled
from broker_node.recovery.checkpoint import CHECKPOINT_NAME, BrokerCheckpoints, BrokerDraft
from broker_node.recovery.open_store import open_store
from broker_node.storage.store import MessageStore
from broker_node.storage.subject_table import StoreLimits
from qmq.errors import LogError, ProtocolError
from qmq.protocol.commands import AckRequest, PullRequest
from qmq.protocol.messages import KEY_CREATED, Message, decode_raw, encode_entry
from qmq.protocol.scan import BatchScanner
from qmq_node.log.handles import HandleCache
from qmq_node.log.stored import StoredSegments
from qmq_node.slices import run_to_end
from tests.support.disks.disk_work import read_and_repair, repeat
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.manual_clock import ManualClock
from tests.support.promises import Check, judging

ROOT = "data"
SUBJECTS = ("orders", "mail")
CONSUMERS = ("c1", "c2")
GROUP = "g"


# The states after the crashes of a scenario have most messages in common.
@functools.lru_cache(maxsize=4096)
def id_of(raw: bytes) -> str:
    """The id of a stored message."""
    return decode_raw(raw)[0].message_id


@functools.lru_cache(maxsize=4096)
def whole_id(raw: bytes) -> str:
    """The id of a stored message, whose content must be the one of `entry_of`."""
    message = decode_raw(raw)[0]
    assert message.properties["data"].startswith(message.message_id + "/"), "content of another message"
    assert set(message.properties["data"].split("/")) == {message.message_id, ""}, "torn content"
    return message.message_id


def entry_of(message_id: str, subject: str, size: int) -> bytes:
    """A message whose content follows from its id."""
    properties = {KEY_CREATED: "1700000000000", "data": content_of(message_id, size)}
    return encode_entry(Message(subject, message_id, properties, (), 0, 1_700_000_000_000, 1_700_000_000_000))


def content_of(message_id: str, size: int) -> str:
    return (message_id + "/") * (size // (len(message_id) + 1) + 1)


@dataclass
class Oracle:
    """What was promised, and what may be there besides."""

    sent: dict[str, dict[int, str]] = field(default_factory=dict)
    """subject -> sequence -> message id, answered."""
    tried: set[str] = field(default_factory=set)
    """Every id ever appended, answered or not."""
    pulled: dict[tuple[str, str], dict[int, str]] = field(default_factory=dict)
    """(subject, consumer) -> pull sequence -> message id, answered."""
    acked: dict[tuple[str, str], int] = field(default_factory=dict)
    """(subject, consumer) -> first pull sequence not acked by an answered ack."""
    ack_tried: dict[tuple[str, str], int] = field(default_factory=dict)


def drafted(checkpoints: BrokerCheckpoints, serve: Callable[[], None], rng: random.Random) -> BrokerDraft:
    """A draft, between whose slices the event loop serves now and then. Before it is saved, all that it holds has to be synced."""
    steps = checkpoints.draft()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            draft: BrokerDraft = end.value
            return draft
        while rng.random() < 0.5:
            serve()


class StoreDriver:
    """Random sends, pulls, acks, checkpoints; what a commit completed is promised."""

    def __init__(self, disk: MemoryDisk, seed: int, *, segment_bytes: int = 32 * 1024) -> None:
        self.disk = disk
        self.rng = random.Random(seed)
        self.oracle = Oracle()
        self.clock = ManualClock()
        self.segment_bytes = segment_bytes
        self._unpromised: list[tuple[str, tuple[object, ...]]] = []
        self._number = 0
        self.store, self.delivery, self.checkpoints = self._open(disk)

    def _open(self, disk: MemoryDisk) -> tuple[MessageStore, Delivery, BrokerCheckpoints]:
        store, self.recovery = open_store(
            disk,
            ROOT,
            self.clock,
            limits=StoreLimits(),
            segment_bytes=self.segment_bytes,
            handles=HandleCache(disk, clock=self.clock),
        )
        return store, Delivery(store, retry_delay_ms=0), BrokerCheckpoints(store, slice_indexes=1, tail_bytes_max=400)

    # --- steps -----------------------------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        """Do random steps; a SimulatedCrash or OSError comes through."""
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        """One random thing."""
        if self.rng.random() < 0.97:
            self.serve()
        else:
            self.commit()
            self.checkpoint(is_serving=True)

    def serve(self) -> None:
        """Send, pull, ack or commit."""
        choice = self.rng.random()
        if choice < 0.4:
            self.send(self.rng.choice(SUBJECTS), self.rng.randint(1, 5))
        elif choice < 0.65:
            self.pull(self.rng.choice(SUBJECTS), self.rng.choice(CONSUMERS), self.rng.randint(1, 8))
        elif choice < 0.85:
            self.ack(self.rng.choice(SUBJECTS), self.rng.choice(CONSUMERS))
        else:
            self.commit()

    def send(self, subject: str, count: int) -> None:
        """Append a batch; promised at the next commit."""
        entries = []
        ids = []
        for _ in range(count):
            message_id = f"m{self._number}"
            self._number += 1
            ids.append(message_id)
            entries.append(entry_of(message_id, subject, self.rng.randint(0, 600)))
        body = memoryview(b"".join(entries))
        (run,), _ = BatchScanner().scan(bytes(body))
        target = self.store.subject(subject)
        first = target.next_sequence
        self.oracle.tried.update(ids)
        self.store.append_run(target, run, body, self.clock.wall_ms())
        self._unpromised.append(("send", (subject, first, ids)))

    def pull(self, subject: str, consumer: str, limit: int) -> None:
        """Pull on; the answer counts at the next commit."""
        known = self.oracle.pulled.get((subject, consumer), {})
        last = max(known, default=-1)
        answer = self._pulled(self.delivery, PullRequest(subject, GROUP, consumer, limit, -1, last, 0, False))
        ids = [id_of(bytes(raw)) for raw in answer.raws]
        self._unpromised.append(("pull", (subject, consumer, answer.pull_begin, ids)))

    @staticmethod
    def _pulled(delivery: Delivery, request: PullRequest) -> Delivered:
        """A pull's answer, after reads from the disk and repairs."""
        return repeat(lambda plan: delivery.pull(request, plan=plan))

    def ack(self, subject: str, consumer: str) -> None:
        """Ack some of what answered pulls gave."""
        key = (subject, consumer)
        known = self.oracle.pulled.get(key, {})
        begin = self.oracle.ack_tried.get(key, 0)
        if not known or begin > max(known):
            return
        last = self.rng.randint(begin, max(known))
        request = AckRequest(subject, GROUP, consumer, begin, last, False)
        try:
            self.delivery.acks.ack(request)
        except BeingSettled as wait:
            while not wait.settlement.step(Budget()):
                self.commit()
            self.delivery.settlements.ended(wait.settlement)
            self.delivery.acks.ack(request)
        self.oracle.ack_tried[key] = last + 1
        self._unpromised.append(("ack", (subject, consumer, last + 1)))

    def commit(self) -> None:
        """Write what is pending; then it is promised."""
        log = self.store.log
        while (commit := log.gather.take()) is not None:
            log.writer.write(commit, on_written=self._during_sync)
            log.complete(commit)
            self.store.completed(log.high_watermark)
        self._promise()
        if self.rng.random() < 0.3 and (seal := log.gather.seal_idle()) is not None:
            log.writer.write(seal, sync=False)
            log.complete(seal)

    def _during_sync(self) -> None:
        # Not each time: what is noted of one commit may be written during a later one, or be read before.
        if self._number % 2:
            self.store.write_histories()
            self.delivery.read_ahead.read()

    def _promise(self) -> None:
        for what, told in self._unpromised:
            if what == "send":
                subject, first, ids = told
                self.oracle.sent.setdefault(str(subject), {}).update(enumerate(ids, first))  # type: ignore[arg-type]
            elif what == "pull":
                subject, consumer, begin, ids = told
                known = self.oracle.pulled.setdefault((str(subject), str(consumer)), {})
                for sequence, message_id in enumerate(ids, begin):  # type: ignore[arg-type]
                    with judging(Check.MEANING):
                        assert known.get(sequence, message_id) == message_id, "a pull sequence changed its meaning"
                    known[sequence] = message_id
            else:
                subject, consumer, end = told
                self.oracle.acked[(str(subject), str(consumer))] = int(end)  # type: ignore[call-overload]
        self._unpromised.clear()

    def checkpoint(self, *, is_serving: bool = False) -> None:
        """Make a checkpoint. With `is_serving` the event loop serves between the slices of its state."""
        if is_serving:
            draft = drafted(self.checkpoints, self.serve, self.rng)
            self.commit()
        else:
            draft = run_to_end(self.checkpoints.draft())
        self.checkpoints.save(draft)
        self.checkpoints.saved(draft)

    def restart(self) -> None:
        """Go on as the next process does after kill -9: what was written is there, and no more durable than it was."""
        self.disk.crash_at = None
        self._unpromised.clear()
        self.store, self.delivery, self.checkpoints = self._open(self.disk)

    # --- judging ---------------------------------------------------------------------------------------------------

    def check(self, disk: MemoryDisk, *, withheld_allowed: bool = False, rebuilt_allowed: bool = False) -> MessageStore:
        """Open what a crash left, and hold it to everything promised."""
        had_checkpoint = any(f"/checkpoint/{CHECKPOINT_NAME}.0" in path for path in disk.names)
        with judging(Check.OPENS):
            try:
                store, delivery, _ = self._open(disk)
            except (ProtocolError, LogError) as error:
                raise AssertionError(f"the store does not open: {error}") from error
        if not withheld_allowed:
            with judging(Check.KEPT):
                assert not store.log.stored.damaged, store.log.stored.damaged
            with judging(Check.CHECKPOINT):
                assert rebuilt_allowed or not (self.recovery.rebuilt and had_checkpoint), self.recovery.why_rebuilt
        seen: dict[str, dict[int, str]] = {}
        for name, subject in store.subjects.items():
            seen[name] = self._read_all(store, name, subject.begin, subject.visible_end, withheld_allowed)
        for name, promised in self.oracle.sent.items():
            for sequence, message_id in promised.items():
                found = seen.get(name, {}).get(sequence)
                if found is None and withheld_allowed:
                    continue
                with judging(Check.KEPT):
                    assert found == message_id, f"{name} {sequence}: promised {message_id}, found {found}"
        for name, messages in seen.items():
            for sequence, message_id in messages.items():
                with judging(Check.KNOWN):
                    assert message_id in self.oracle.tried, f"{name} {sequence}: {message_id} was never sent"
        if not withheld_allowed:
            self._check_pulls(store, delivery, seen)
        return store

    @judging(Check.CONTENT)
    def _read_all(self, store: MessageStore, name: str, begin: int, end: int, withheld_allowed: bool) -> dict[int, str]:
        found = {}
        for sequence, raw in enumerate(read_and_repair(store, store.subjects[name], begin, end), begin):
            if raw is None:
                assert withheld_allowed, f"{name} {sequence} can't be read"
                continue
            try:
                found[sequence] = whole_id(bytes(raw))
            except ProtocolError as error:
                raise AssertionError(f"{name} {sequence}: {error}") from error
        return found

    def _check_pulls(self, store: MessageStore, delivery: Delivery, seen: dict[str, dict[int, str]]) -> None:
        """Restarted consumers get what they hold unacked, under the old sequences; then everything else, once."""
        for name in self.oracle.sent:
            got: set[str] = set()
            # Also consumers that were never answered: their pull may have reached the disk all the same.
            for consumer in CONSUMERS:
                known = self.oracle.pulled.get((name, consumer), {})
                confirmed = self.oracle.acked.get((name, consumer), 0)
                tried = self.oracle.ack_tried.get((name, consumer), 0)
                got.update(message_id for sequence, message_id in known.items() if sequence < tried)
                last, again = -1, {}
                while True:
                    answer = self._pulled(delivery, PullRequest(name, GROUP, consumer, 100, -1, last, 0, False))
                    if not answer.raws:
                        break
                    ids = [id_of(bytes(raw)) for raw in answer.raws]
                    again.update(enumerate(ids, answer.pull_begin))
                    last = max(again)
                for sequence, message_id in known.items():
                    if sequence < confirmed:
                        with judging(Check.ACKED):
                            assert sequence not in again, f"{name} {consumer} {sequence}: acked, and came again"
                    elif sequence >= tried:
                        now = again.get(sequence)
                        with judging(Check.MEANING):
                            assert now == message_id, f"{name} {consumer} {sequence}: stood for {message_id}, now {now}"
                got.update(again.values())
            group = store.subjects[name].groups.get(GROUP)
            if group is None or not any(key[0] == name for key in self.oracle.pulled):
                continue
            first = min((s for s, m in seen[name].items() if m in got), default=None)
            if first is not None:
                missing = {m for s, m in self.oracle.sent[name].items() if s >= first} - got
                with judging(Check.DELIVERED):
                    assert not missing, f"{name}: acknowledged and never delivered: {sorted(missing)[:5]}"


def walks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where the log was walked from, of all walks from now on."""
    begins: list[int] = []
    walk = StoredSegments.walk

    def counted(self: StoredSegments, begin: int, *arguments: object, **more: object) -> object:
        begins.append(begin)
        return walk(self, begin, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(StoredSegments, "walk", counted)
    return begins
