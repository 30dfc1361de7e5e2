"""Data folders that older commits wrote open in today's nodes and are served. `tests/support/old_data.py` recorded them.

The files are real ones. The time is virtual and begins a second after the recording, so that retention deletes nothing and only
messages that were overdue then are overdue now.
"""

import json
import tarfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from broker_node.broker import Broker
from broker_node.recovery.checkpoint import CHECKPOINT_FORMAT, CHECKPOINT_NAME
from delay_node.delay_node import DelayNode
from qmq.protocol.codes import ResponseCode
from qmq.protocol.delayed import ListDelayedRequest
from qmq.protocol.messages import Message
from qmq_node.log.checkpoint import CheckpointStore
from qmq_node.log.disk import SystemDisk
from tests.sim.world.loop import running_loop
from tests.sim.world.world import World
from tests.support.drivers.in_process import (
    Client,
    ShiftedClock,
    SmallSystem,
    connected,
    now_ms,
    small_system,
    stored_in,
)
from tests.support.old_data import DAY, SECOND, Expected, GroupOf, HeldBy, message_of
from tests.support.promises import judging
from tests.support.waiting import eventually_async

FOLDER = Path(__file__).parent
OLD_FORMAT = 1
YEARS_MS = 1_000 * DAY
"""After this, all messages are overdue that an old delay node accepted."""
DELIVERY_SECONDS = 30.0
"""A node that found no broker for a subject tries again within a few seconds."""
RECOVERY_LOGS = ("qmq.broker.recovery", "qmq.delay.recovery", "qmq_node.log")
NEW = 3
"""Messages that each subject gets from today's nodes."""


@dataclass
class Recording:
    """An unpacked recording."""

    folder: Path
    expected: Expected
    is_killed: bool
    """Whether the nodes were killed, so that their checkpoints lack the latest commits."""

    def broker_format(self) -> int:
        """The format of the newest checkpoint of the broker."""
        found = CheckpointStore(SystemDisk(), str(self.folder / "g1/checkpoint"), CHECKPOINT_NAME).load()
        assert found is not None
        head: dict[str, int] = json.loads(found.state.partition(b"\n")[0])
        return head["format"]


@pytest.fixture(params=("1-stopped", "1-killed"))
def recording(request: pytest.FixtureRequest, tmp_path: Path) -> Recording:
    """Each of the recorded ends."""
    with tarfile.open(FOLDER / f"{request.param}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    expected = Expected.decode(json.loads((tmp_path / "expected.json").read_text()))
    return Recording(tmp_path, expected, request.param.endswith("-killed"))


@asynccontextmanager
async def system_of(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SmallSystem]:
    """A system on the recording's folder, without nodes at first, on the real disk and at the time of the recording."""
    world = running_loop()
    assert isinstance(world, World)
    monkeypatch.setattr(world, "disk", SystemDisk())
    monkeypatch.setattr("tests.sim.world.loop.START_WALL_MS", recording.expected.recorded_at_ms + SECOND)
    async with small_system(recording.folder, groups=0, with_delay=False) as system:
        yield system


@asynccontextmanager
async def broker_of(system: SmallSystem) -> AsyncIterator[Broker]:
    """The recorded broker, started."""
    broker = await system.start_broker("g1")
    try:
        yield broker
    finally:
        await broker.close()


@asynccontextmanager
async def delay_of(system: SmallSystem, ahead_ms: int = 0) -> AsyncIterator[DelayNode]:
    """The recorded delay node, started, with a wall clock that is ahead."""
    system.clock = ShiftedClock(ahead_ms)
    node = await system.start_delay()
    try:
        yield node
    finally:
        await node.close()


@judging()
def check_stored(broker: Broker, expected: Expected) -> None:
    """Subjects have their messages and groups their positions."""
    assert not broker.data.recovery.rebuilt, broker.data.recovery.why_rebuilt
    assert not broker.store.log.stored.damaged
    assert set(broker.store.subjects) == set(expected.messages)
    for name, ids in expected.messages.items():
        subject = broker.store.subjects[name]
        assert (subject.begin, subject.visible_end) == (0, len(ids)), name
        found = stored_in([broker], name)
        assert [message.message_id for message in found] == ids
        assert all(map(is_whole, found)), name
    groups = {(name, group) for name, subject in broker.store.subjects.items() for group in subject.groups}
    assert groups == {(group.subject, group.name) for group in expected.groups}
    for group in expected.groups:
        progress = broker.store.subjects[group.subject].groups[group.name].progress
        assert progress.broadcast is group.broadcast
        assert progress.next_sequence == group.next_sequence, group
        consumers = {name: (by.log.acked, by.log.in_flight) for name, by in progress.consumers.items()}
        assert consumers == {name: (by.acked, len(by.held)) for name, by in group.consumers.items()}, group


def is_whole(message: Message) -> bool:
    """Return whether the content is the one that `message_of` gave it."""
    return set(message.properties["data"].split("/")) == {message.message_id, ""}


async def receive(client: Client, group: GroupOf, consumer: str, count: int, last: int) -> tuple[int, list[str]]:
    """(first pull sequence, ids) of the next `count` messages of a consumer, or of those that there are."""
    first, found = -1, list[str]()
    while len(found) < count:
        begin, ids = await client.pull(
            group.subject, group.name, consumer, limit=count - len(found), last=last, broadcast=group.broadcast,
            filters=group.filters,
        )  # fmt: skip
        if not ids:
            break
        first = begin if first < 0 else first
        found += ids
        last = begin + len(ids) - 1
    return first, found


async def consume(client: Client, group: GroupOf) -> None:
    """Restarted consumers get again what they hold, under the old pull sequences, then one of them all else, and acknowledge it."""
    group.consumers = group.consumers or {"c1": HeldBy()}
    for name, by in group.consumers.items():
        if by.held:
            begin, ids = await receive(client, group, name, len(by.held), -1)
            with judging():
                assert (begin, ids) == (by.acked, by.held), (group, name)
    name, by = next(iter(group.consumers.items()))
    begin, ids = await receive(client, group, name, len(group.unread) + 1, by.acked + len(by.held) - 1)
    with judging():
        assert ids == group.unread, group
    by.held += ids
    group.unread = []
    for name, by in group.consumers.items():
        if by.held:
            last = by.acked + len(by.held) - 1
            code = await client.ack(by.acked, last, group.subject, group.name, name, group.broadcast)
            assert code == ResponseCode.SUCCESS
        by.acked += len(by.held)
        by.held = []


async def send_new(client: Client, expected: Expected) -> None:
    """Send messages to each subject, of which its groups receive all but the last and acknowledge all but the last two."""
    for name, ids in expected.messages.items():
        # Tagged like the first ones, so that each group gets them.
        fresh = [message_of(name, 10_000 + number, tag="red") for number in range(NEW)]
        assert await client.send(*fresh) == {}
        ids += [message.message_id for message in fresh]
    for group in expected.groups:
        name, by = next(iter(group.consumers.items()))
        fresh_ids = expected.messages[group.subject][-NEW:]
        begin, found = await receive(client, group, name, NEW - 1, by.acked - 1)
        with judging():
            assert found == fresh_ids[:-1], group
        assert await client.ack(begin, begin, group.subject, group.name, name, group.broadcast) == ResponseCode.SUCCESS
        by.acked, by.held, group.unread = begin + 1, found[1:], fresh_ids[-1:]
        group.next_sequence = len(expected.messages[group.subject]) - 1


async def pending_in(delay: DelayNode, expected: Expected) -> dict[str, tuple[str, int]]:
    """Subject and due time by id of the messages that a delay node has neither delivered nor cancelled."""
    found: dict[str, tuple[str, int]] = {}
    async with connected(delay) as client:
        for subject in {subject for subject, _ in expected.pending.values()}:
            cursor, is_last = "", False
            while not is_last:
                query = ListDelayedRequest(subject, 0, now_ms() + YEARS_MS, limit=100, cursor=cursor)
                page = await client.listed(query)
                with judging():
                    assert all(is_whole(item.message) for item in page.items)
                found |= {item.message.message_id: (item.message.subject, item.due_ms) for item in page.items}
                cursor, is_last = page.cursor, not page.cursor
    with judging():
        assert delay.store.pending == len(found)
    return found


async def delivered(
    broker: Broker, delay: DelayNode, expected: Expected, ahead_ms: int, seconds: float = 0.0
) -> set[str]:
    """The ids on the broker, once all messages are there that are due `seconds` from now by a clock that is ahead."""

    def due(until_ms: int) -> set[str]:
        return {name for name, (_, due_ms) in expected.pending.items() if due_ms <= until_ms + ahead_ms}

    wanted = due(now_ms() + round(seconds * SECOND))
    await eventually_async(
        lambda: delay.store.pending <= len(expected.pending) - len(wanted),
        seconds + DELIVERY_SECONDS,
        "all due messages left",
    )
    subjects = {subject for subject, _ in expected.pending.values()}
    found = Counter(item.message_id for subject in subjects for item in stored_in([broker], subject))
    with judging():
        assert wanted <= set(found), "lost"
        assert set(found) <= due(now_ms()), "early, or cancelled"
        assert set(found.values()) <= {1}, "each is delivered once"
    return set(found)


async def test_a_broker_opens_and_serves_what_an_older_one_wrote(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = recording.expected
    assert recording.broker_format() == OLD_FORMAT
    async with system_of(recording, monkeypatch) as system:
        async with broker_of(system) as broker, connected(broker) as client:
            assert bool(broker.data.recovery.replayed_messages) is recording.is_killed
            check_stored(broker, expected)
            for group in expected.groups:
                await consume(client, group)
            await send_new(client, expected)
        assert recording.broker_format() == CHECKPOINT_FORMAT
        async with broker_of(system) as broker, connected(broker) as client:
            check_stored(broker, expected)
            for group in expected.groups:
                await consume(client, group)


@pytest.mark.parametrize("ahead_ms", [0, YEARS_MS], ids=["a-second-later", "years-later"])
async def test_a_delay_node_delivers_what_an_older_one_accepted(
    ahead_ms: int, recording: Recording, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    expected = recording.expected
    async with system_of(recording, monkeypatch) as system:
        async with delay_of(system, ahead_ms) as delay:
            # There is no broker yet, so nothing can be delivered.
            with judging():
                assert await pending_in(delay, expected) == expected.pending
            async with broker_of(system) as broker:
                overdue = await delivered(broker, delay, expected, ahead_ms)
                gone = await delivered(broker, delay, expected, ahead_ms, 60.0)
                assert bool(overdue < gone) is (ahead_ms == 0)
        async with delay_of(system, ahead_ms) as delay:
            left = {name: target for name, target in expected.pending.items() if name not in gone}
            with judging():
                assert await pending_in(delay, expected) == left
        async with broker_of(system) as broker, delay_of(system, YEARS_MS) as delay:
            assert await delivered(broker, delay, expected, YEARS_MS) == set(expected.pending)
    assert delay.store.pending == 0
    problems = [item.getMessage() for item in caplog.records if item.levelname != "INFO" and item.name in RECOVERY_LOGS]
    assert not problems
