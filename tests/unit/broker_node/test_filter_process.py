"""The process that does the steps of searches: it is started again, and stopped when a step takes too much."""

import importlib
import os
from pathlib import Path

import pytest

from broker_node.reads.filtered.step import Job, Result
from broker_node.storage.consume_log import ENTRY_BYTES
from qmq.errors import LogError
from qmq.protocol.masking import NO_MASKS
from qmq_node.filters import TooCostly, process
from qmq_node.filters.pace import SLICE_SECONDS
from qmq_node.filters.process import FilterProcess
from qmq_node.log.index import IndexCopy

STEP = "broker_node.reads.filtered.step"
NOTHING = Job(
    "nowhere", IndexCopy("nowhere", ENTRY_BYTES, (), 0, 0, 0, 0, b""), "true", 0, 0, 0, True, 10, 1_000, 0.5,
    masks=NO_MASKS,
)  # fmt: skip
MISSING = Job(
    "nowhere", IndexCopy("nowhere", ENTRY_BYTES, ((0, 5),), 0, 5, 5, 5, b""), "true", 0, 0, 5, True, 10, 1_000, 0.5,
    masks=NO_MASKS,
)  # fmt: skip


def test_steps_are_done_by_one_process_which_is_started_again_when_it_has_ended() -> None:
    scans = FilterProcess(STEP)
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
    scans = FilterProcess(STEP)
    monkeypatch.setattr(process, "_PROGRAM", "#{}\nwhile {}: pass")
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
    monkeypatch.setattr(process, "_PROGRAM", "#{}{}\nraise SystemExit(3)")
    scans = FilterProcess(STEP)
    try:
        with pytest.raises(LogError) as caught:
            scans.run(NOTHING)
        assert caught.value.code == "scan.failed"
    finally:
        scans.close()


def test_what_the_work_needs_is_imported_at_the_priority_of_the_node(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines = f"import os, pathlib; pathlib.Path({str(tmp_path / 'nice')!r}).write_text(str(os.nice(0))); import {STEP}"
    (tmp_path / "needed_by_work.py").write_text(lines)
    monkeypatch.syspath_prepend(tmp_path)
    scans = FilterProcess("needed_by_work")
    try:
        assert scans.run(NOTHING) == Result(0)
        assert (tmp_path / "nice").read_text() == str(os.nice(0))
        process_id = scans._process.pid if scans._process else 0
        assert os.getpriority(os.PRIO_PROCESS, process_id) == min(19, os.nice(0) + process.NICENESS)
    finally:
        scans.close()


def test_the_process_pauses_after_each_slice_of_processor_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    work = """
import signal
from qmq_node.filters.pace import Pace

class Work:
    what = "nothing"

    def run(self, disk, clock):
        handler = signal.getsignal(signal.SIGPROF)
        return signal.getitimer(signal.ITIMER_PROF)[1], isinstance(handler.__self__, Pace)
"""
    (tmp_path / "paced_work.py").write_text(work)
    monkeypatch.syspath_prepend(tmp_path)
    scans = FilterProcess("paced_work")
    try:
        assert scans.run(importlib.import_module("paced_work").Work()) == (pytest.approx(SLICE_SECONDS), True)
    finally:
        scans.close()
