"""READ_COPY of the files that a checkpoint counts: what a master serves, refuses, and keeps meanwhile."""

import asyncio
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from qmq.errors import LogError
from qmq.protocol.replication import ReadCopyResponse
from qmq_node.log.checkpoint import CheckpointFile
from qmq_node.replication.master.retention_holds import HOLD_SECONDS
from qmq_node.replication.master.state_reads import PIECE_BYTES, STATE_SECONDS
from qmq_node.replication.state_files import StateFile, WantedBytes
from tests.sim.leading.reading import REQUEST, connected, read, save
from tests.sim.leading.scene import EPOCH, PROMOTION, leading, membership
from tests.support.drivers.logs import drop_before

NAME = "schedule/2026112913.data"
SMALL = "dispatch/2026112913"
FILE = replace(REQUEST, file=NAME, position=300, begin=0, bytes_max=100)


class Files:
    """Two files of one owner, of which a checkpoint counts 1,000 and 24 bytes."""

    def __init__(self) -> None:
        self.contents = {NAME: bytes(range(250)) * 8, SMALL: bytes(50)}
        self.since = 77
        self.on_read: Callable[[], None] = lambda: None
        self.problem: LogError | None = None

    def counted(self, checkpoint: CheckpointFile) -> Mapping[str, StateFile]:
        if self.problem is not None:
            raise self.problem
        counts = {SMALL: 24, NAME: 1_000}
        return {name: StateFile(name, count, 5, 77, place) for place, (name, count) in enumerate(counts.items())}

    def is_current(self, file: StateFile) -> bool:
        return (file.owner, file.since) == (5, self.since)

    def read(self, file: StateFile, begin: int, size: int) -> bytes:
        self.on_read()
        return self.contents[file.path][begin : begin + size]

    def keep(self, log_end: int) -> None:
        raise NotImplementedError

    def discard(self) -> None:
        raise NotImplementedError

    def copy(self) -> Generator[WantedBytes, bytes, int]:
        raise NotImplementedError


async def test_a_file_is_read_up_to_what_the_checkpoint_counts() -> None:
    files = Files()
    async with leading(membership("m"), commits_before=3, files=files, log_id="0123456789abcdef") as scene:
        save(scene, 300)
        caller = await connected(scene)
        state = await read(caller, REQUEST)
        assert isinstance(state, ReadCopyResponse)
        data = b""
        while len(data) < 1_000:
            answer = await read(caller, replace(FILE, begin=len(data), bytes_max=300))
            assert isinstance(answer, ReadCopyResponse)
            assert (answer.position, answer.total_bytes, answer.log_id) == (300, 1_000, "0123456789abcdef")
            data += answer.data
        assert data == files.contents[NAME][:1_000]
        last = await read(caller, replace(FILE, begin=1_000))
        assert isinstance(last, ReadCopyResponse)
        assert last.data == b""
        assert scene.leading.counters.sent_bytes["state"] == len(state.data) + 1_000
        await caller.close()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"file": "schedule/2026112914.data"}, "copy.no_file"),
        ({"file": "../replica"}, "copy.no_file"),
        ({"file": "schedule/../schedule/2026112913.data"}, "copy.no_file"),
        ({"file": "/etc/passwd"}, "copy.no_file"),
        ({"file": f"{NAME}\0"}, "copy.no_file"),
        ({"begin": 1_001}, "copy.beyond"),
        ({"begin": 1 << 62}, "copy.beyond"),
        ({"position": 299}, "copy.removed"),
        ({"broker_group": "g2"}, "copy.forbidden"),
        ({"node_id": "stranger"}, "copy.forbidden"),
        ({"node_id": "b"}, "copy.forbidden"),
        ({"node_id": "m"}, "copy.forbidden"),
        ({"epoch": EPOCH - 1}, "copy.forbidden"),
        ({"promotion_id": PROMOTION[:-1] + "2"}, "copy.forbidden"),
    ],
    ids=str,
)
async def test_bad_requests_are_refused_and_touch_no_file(changes: dict[str, Any], code: str) -> None:
    files = Files()
    # Node b is a spare of the group.
    async with leading(membership("m", members=("m", "a")), commits_before=3, files=files, secret=None) as scene:
        save(scene, 300)
        caller = await connected(scene)
        assert isinstance(await read(caller, REQUEST), ReadCopyResponse)
        reads: list[int] = []
        files.on_read = lambda: reads.append(1)
        assert await read(caller, replace(FILE, **changes)) == code
        assert scene.listener.counters.bad_requests[code] == 1
        assert not reads
        # Other slaves notice nothing.
        assert isinstance(await read(caller, FILE), ReadCopyResponse)
        await caller.close()


async def test_the_files_of_a_checkpoint_that_can_not_be_read_are_not_served() -> None:
    files = Files()
    files.problem = LogError("its CRC does not match")
    async with leading(membership("m"), commits_before=3, files=files) as scene:
        save(scene, 300)
        caller = await connected(scene)
        assert await read(caller, REQUEST) == "copy.busy"
        files.problem = None
        assert isinstance(await read(caller, REQUEST), ReadCopyResponse)
        await caller.close()


@pytest.mark.parametrize("when", ["before the read", "during the read"])
async def test_a_file_that_was_used_again_is_not_the_one_of_the_checkpoint(when: str) -> None:
    files = Files()
    async with leading(membership("m"), commits_before=3, files=files) as scene:
        save(scene, 300)
        caller = await connected(scene)
        assert isinstance(await read(caller, REQUEST), ReadCopyResponse)
        if when == "before the read":
            files.since = 78
        else:
            files.on_read = lambda: setattr(files, "since", 78)
        assert await read(caller, FILE) == "copy.removed"
        # The checkpoint is of no use to any slave.
        files.since, files.on_read = 77, lambda: None
        assert await read(caller, FILE) == "copy.removed"
        assert not scene.leading.holds_files
        save(scene, 400)
        assert isinstance(await read(caller, REQUEST), ReadCopyResponse)
        assert isinstance(await read(caller, replace(FILE, position=400)), ReadCopyResponse)
        await caller.close()


async def test_files_are_held_while_a_slave_gets_further() -> None:
    async with leading(membership("m"), commits_before=40, files=Files()) as scene:
        high_watermark = scene.committer.high_watermark
        save(scene, 300)
        assert not scene.leading.holds_files
        caller = await connected(scene)
        assert isinstance(await read(caller, REQUEST), ReadCopyResponse)
        assert scene.leading.holds_files
        # For longer than a slave that makes no progress has.
        for begin in range(0, 1_000, 50):
            await scene.wait(STATE_SECONDS - 1)
            caller = await connected(scene)
            assert isinstance(await read(caller, replace(FILE, begin=begin, bytes_max=50)), ReadCopyResponse)
            assert (scene.leading.holds_files, scene.leading.retained_from) == (True, 300)
        assert 20 * STATE_SECONDS > HOLD_SECONDS
        # The same again, or an earlier file, is no progress.
        for name in (NAME, SMALL):
            await scene.wait(STATE_SECONDS / 2 - 1)
            caller = await connected(scene)
            assert isinstance(await read(caller, replace(FILE, file=name, bytes_max=20)), ReadCopyResponse)
        await scene.wait(3)
        assert not scene.leading.holds_files
        caller = await connected(scene)
        assert await read(caller, FILE) == "copy.removed"
        await scene.wait(HOLD_SECONDS)
        assert scene.leading.retained_from == high_watermark
        await caller.close()


async def test_two_slaves_copy_the_files_of_one_checkpoint() -> None:
    async with leading(membership("m"), commits_before=3, files=Files(), secret=None) as scene:
        save(scene, 300)
        caller = await connected(scene)
        assert isinstance(await read(caller, REQUEST), ReadCopyResponse)
        assert isinstance(await read(caller, FILE), ReadCopyResponse)
        save(scene, 400)
        other = await read(caller, replace(REQUEST, node_id="b"))
        assert isinstance(other, ReadCopyResponse)
        assert other.position == 300
        assert isinstance(await read(caller, replace(FILE, begin=100)), ReadCopyResponse)
        # Who wants a newer one gets it.
        own = await read(caller, REQUEST)
        assert isinstance(own, ReadCopyResponse)
        assert own.position == 400
        await caller.close()


async def test_a_state_whose_log_is_gone_is_not_given_to_another_slave() -> None:
    """Two slaves would keep it for each other for ever."""
    async with leading(membership("m"), commits_before=120, files=Files(), secret=None) as scene:
        save(scene, 300)
        caller = await connected(scene)
        assert isinstance(await read(caller, REQUEST), ReadCopyResponse)
        assert isinstance(await read(caller, FILE), ReadCopyResponse)
        save(scene, 9_500)
        await asyncio.to_thread(drop_before, scene.log, 9_000)
        assert scene.log.begin == 8_192
        other = await read(caller, replace(REQUEST, node_id="b"))
        assert isinstance(other, ReadCopyResponse)
        assert other.position == 9_500
        assert await read(caller, replace(FILE, begin=100)) == "copy.removed"
        await caller.close()


async def test_a_state_that_a_slave_copied_long_ago_is_not_given_to_another_one() -> None:
    async with leading(membership("m"), commits_before=3, files=Files(), secret=None) as scene:
        save(scene, 300)
        caller = await connected(scene)
        assert isinstance(await read(caller, REQUEST), ReadCopyResponse)
        assert isinstance(await read(caller, FILE), ReadCopyResponse)
        save(scene, 400)
        await scene.wait(STATE_SECONDS - 5)
        caller = await connected(scene)
        # The other one begins, and uses it from now on.
        assert isinstance(await read(caller, replace(REQUEST, node_id="b")), ReadCopyResponse)
        await scene.wait(6)
        caller = await connected(scene)
        third = await read(caller, replace(REQUEST, node_id="b"))
        assert isinstance(third, ReadCopyResponse)
        assert third.position == 400
        await caller.close()


async def test_the_rate_counts_what_is_sent() -> None:
    async with leading(membership("m"), commits_before=3, files=Files(), copy_bytes_per_second=1_000) as scene:
        save(scene, 300)
        caller = await connected(scene)
        assert isinstance(await read(caller, replace(REQUEST, bytes_max=1)), ReadCopyResponse)
        began = asyncio.get_running_loop().time()
        for _ in range(10):
            answer = await read(caller, replace(FILE, file=SMALL, bytes_max=PIECE_BYTES))
            assert isinstance(answer, ReadCopyResponse)
            assert len(answer.data) == 24
        assert 0.2 <= asyncio.get_running_loop().time() - began <= 0.3
        await caller.close()
