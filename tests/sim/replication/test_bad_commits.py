"""COMMITS that a slave does not take: its session ends, its log has nothing of them, and the next session continues."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from qmq.protocol.codes import Command
from qmq.protocol.frames import FLAG_ONE_WAY, request_header
from qmq.protocol.replication import COMMITS_BYTES_MAX
from qmq_node.log.copied_log import CopiedCommits
from qmq_node.replication.slave import joining
from qmq_node.replication.slave.follower import FRAME_BYTES_MAX
from tests.sim.replication.following import EPOCH, PROMOTION, ScriptedMaster, following, following_again
from tests.support.drivers.copies import changed, commits_of, header_of, master_log, together
from tests.support.waiting import eventually_async

Bad = Callable[[ScriptedMaster, list[CopiedCommits]], None]


def bad_commits() -> Iterator[tuple[str, Bad, str]]:
    """What it is, how it is sent, and what the slave logs of it."""

    def flipped(commits: CopiedCommits) -> CopiedCommits:
        data = bytearray(commits.data)
        data[-1] ^= 1
        return replace(commits, data=memoryview(data))

    def longer(commits: CopiedCommits) -> CopiedCommits:
        return changed(commits, body_bytes=header_of(commits).body_bytes + 1)

    yield "another session", lambda m, c: m.send(c[1], session=m.session - 1), "commits of session"
    yield "an older epoch", lambda m, c: m.send(c[1], epoch=EPOCH - 1), "commits of epoch 8"
    yield "a newer epoch", lambda m, c: m.send(c[1], epoch=EPOCH + 1), "commits of epoch 10"
    yield "another promotion", lambda m, c: m.send(c[1], promotion_id=PROMOTION[:-1] + "2"), "promotion"
    yield "repeated", lambda m, c: m.send(c[0]), "the slave's log ends at"
    yield "out of order", lambda m, c: m.send(c[2]), "the slave's log ends at"
    yield "a wrong CRC", lambda m, c: m.send(flipped(c[1])), "rejected by its CRC"
    yield "a wrong chain", lambda m, c: m.send(changed(c[1], previous_crc=7)), "rejected by its chain"
    yield "a wrong length", lambda m, c: m.send(longer(c[1])), "rejected by its length"
    yield "truncated", lambda m, c: m.send(replace(c[1], data=c[1].data[:-1])), "rejected by its length"
    yield "half a header", lambda m, c: m.send(replace(c[1], data=c[1].data[:40])), "rejected by its length"
    yield "a wrong base", lambda m, c: m.send(c[1], segment_base=64), "whose size the master has not stated"
    yield "a base in its header", lambda m, c: m.send(changed(c[1], segment_base=64)), "rejected by its segment"
    yield "of another log", lambda m, c: m.send(replace(c[1], data=c[0].data)), "rejected by its offset"
    yield (
        "larger than its segment",
        lambda m, c: m.send(c[1], segment_bytes=c[1].offset + 1),
        "can't hold commits up to",
    )
    yield "half a body", lambda m, c: m.push_body(b"\0" * 40), "Commits.log_begin: the body ends at byte 40"
    yield (
        "more index entries than its messages have",
        lambda m, c: m.send(replace(c[1], index_entries=bytes(32 * len(c[1].data)))),
        "Commits.index_entries: ",
    )
    yield (
        "half an index entry",
        lambda m, c: m.send(replace(c[1], index_entries=bytes(16))),
        "16 bytes of entries, not a multiple of 32",
    )
    yield (
        "index entries of two commits",
        lambda m, c: m.send(replace(together(c[1:3]), index_entries=bytes(64))),
        "rejected by its index entries: 64 bytes for 2 commits",
    )
    yield "another command", lambda m, c: m.push_body(b"", Command.FOLLOW), "command 217"


@pytest.mark.parametrize(("send", "why"), [pytest.param(send, why, id=name) for name, send, why in bad_commits()])
async def test_commits_that_do_not_fit_end_the_session_and_the_next_one_continues(
    send: Bad, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    master = ScriptedMaster(master_log())
    async with following(master) as slave:
        commits = list(commits_of(master.log))
        master.send(commits[0])
        await eventually_async(lambda: master.confirmed[-1].synced_end == commits[1].offset)
        send(master, commits)
        await following_again(master, slave)
        assert slave.follower.counters.rejected_commits == 1
        assert why in caplog.text
        assert master.requests[1].end == commits[1].offset


async def test_a_frame_above_the_limit_ends_the_session_by_its_header(caplog: pytest.LogCaptureFixture) -> None:
    assert FRAME_BYTES_MAX == COMMITS_BYTES_MAX + (64 << 10)
    master = ScriptedMaster(master_log())
    async with following(master) as slave:
        assert master.connection is not None
        master.connection.push(request_header(Command.COMMITS, 0, FRAME_BYTES_MAX, flag=FLAG_ONE_WAY))
        await following_again(master, slave)
        assert "sends what can't be read" in caplog.text


async def test_commits_beyond_the_window_end_the_session(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    master = ScriptedMaster(master_log())
    async with following(master) as slave:
        commits = list(commits_of(master.log))
        first = len(commits[0].data)
        monkeypatch.setattr(joining, "WINDOW_BYTES", first)
        monkeypatch.setattr(joining, "COMMITS_BYTES_MAX", len(commits[1].data) - 1)
        # They arrive together, before the first one is written.
        master.send(commits[0])
        master.send(commits[1])
        await eventually_async(lambda: len(master.requests) == 2)
        assert slave.follower.counters.rejected_commits == 1
        assert f"bytes that are not written yet, the window is {first}" in caplog.text
        assert master.requests[1].end == commits[1].offset
        monkeypatch.undo()
        await following_again(master, slave)
