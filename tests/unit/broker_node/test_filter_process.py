"""The process that does the steps of searches: it is started again, and stopped when a step takes too much."""

import pytest

from broker_node.reads.filtered.step import Job, Result
from broker_node.storage.consume_log import ENTRY_BYTES
from qmq.errors import LogError
from qmq.protocol.masking import NO_MASKS
from qmq_node.filters import TooCostly, process
from qmq_node.filters.process import FilterProcess
from qmq_node.log.index import IndexCopy

NOTHING = Job(
    "nowhere", IndexCopy("nowhere", ENTRY_BYTES, (), 0, 0, 0, 0, b""), "true", 0, 0, 0, True, 10, 1_000, 0.5,
    masks=NO_MASKS,
)  # fmt: skip
MISSING = Job(
    "nowhere", IndexCopy("nowhere", ENTRY_BYTES, ((0, 5),), 0, 5, 5, 5, b""), "true", 0, 0, 5, True, 10, 1_000, 0.5,
    masks=NO_MASKS,
)  # fmt: skip


def test_steps_are_done_by_one_process_which_is_started_again_when_it_has_ended() -> None:
    scans = FilterProcess()
    try:
        assert scans.run(NOTHING) == Result(0)
        first = scans._process
        assert first is not None
        assert scans.run(NOTHING) == Result(0)
        assert scans._process is first
        first.kill()
        first.wait()
        assert scans.run(NOTHING) == Result(0)
        assert scans._process is not first
        with pytest.raises(LogError, match="nowhere"):
            scans.run(MISSING)
        assert scans.run(NOTHING) == Result(0), "an error of a step is its answer"
    finally:
        scans.close()
    assert scans._process is None


def test_a_step_that_takes_too_much_processor_time_ends_with_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    scans = FilterProcess()
    monkeypatch.setattr(process, "_PROGRAM", "while {}: pass")
    monkeypatch.setattr(process, "WORK_CPU_SECONDS_MAX", 0.05)
    try:
        with pytest.raises(TooCostly, match="of processor time"):
            scans.run(NOTHING)
        assert scans._process is None
        monkeypatch.undo()
        assert scans.run(NOTHING) == Result(0)
    finally:
        scans.close()


def test_a_process_that_can_not_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_PROGRAM", "{}; raise SystemExit(3)")
    scans = FilterProcess()
    try:
        with pytest.raises(LogError) as caught:
            scans.run(NOTHING)
        assert caught.value.code == "scan.failed"
    finally:
        scans.close()
