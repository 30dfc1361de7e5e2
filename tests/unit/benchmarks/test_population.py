"""The benchmark of many subjects: the rate of its load, the flags of its nodes, and what it reads and prints."""

import os

import pytest

from benchmarks.population_load import BURST_MESSAGES, LONG_POLLS_MAX, due_bursts, long_poll_count, subject_names
from benchmarks.population_report import FIGURES, MIB, checkpoint_seconds, pauses, process_usage, storage_flags, table
from qmq_node.process.loop_pauses import LoopPauses
from tests.support.manual_clock import ManualClock


def test_bursts_follow_the_rate():
    assert due_bursts(5_000, 0.0, 0) == 0
    assert due_bursts(5_000, 1.0, 0) == 5_000 // BURST_MESSAGES
    assert due_bursts(5_000, 1.0, 499) == 1
    assert due_bursts(5_000, 1.0, 600) == 0


def test_subjects_have_names_of_their_own():
    assert len(set(subject_names(1_000))) == 1_000


def test_a_limited_share_of_groups_holds_long_polls():
    assert long_poll_count(40) == 10
    assert long_poll_count(120_000) == LONG_POLLS_MAX


def test_a_run_fills_segments_and_makes_checkpoints():
    flags = storage_flags(5_000, 600)
    options = dict(zip(flags.broker[::2], flags.broker[1::2], strict=True))
    assert int(options["--segment-bytes"]) == 200_000_000
    assert int(options["--retention-bytes"]) == 600_000_000
    assert options["--checkpoint-seconds"] == "200"
    assert "--retention-bytes" not in flags.delay


def test_flags_of_a_short_run_are_allowed():
    assert storage_flags(1, 1).broker == (
        "--segment-bytes", str(MIB), "--checkpoint-seconds", "1", "--retention-bytes", str(3 * MIB)
    )  # fmt: skip


def test_pauses_are_read_from_metrics():
    measured = LoopPauses(ManualClock().monotonic)
    measured.start()
    measured.observe(0.25)
    text = "".join(
        f'{sample.name}{{window="{sample.labels["window"]}"}} {sample.value}\n'
        for family in measured.metrics()
        for sample in family.samples
        if "window" in sample.labels
    )
    assert pauses(text) == {"10s": 0.25, "1m": 0.25, "10m": 0.25}
    assert pauses("qmq_broker_commits_total 3\n") == {}


@pytest.mark.parametrize(
    ("log", "seconds"),
    [
        ("INFO qmq checkpoint at log offset 10, 20 bytes, 0.250 s\nINFO qmq checkpoint at log offset 11, 20 bytes, 1.500 s\n", 1.5),
        ("INFO qmq checkpoint at log offset 10, 20 bytes\n", None),
    ],
)  # fmt: skip
def test_the_slowest_checkpoint_is_read_from_a_log(log: str, seconds: float | None):
    assert checkpoint_seconds(log) == seconds


def test_the_usage_of_this_process():
    usage = process_usage(os.getpid())
    assert usage.cpu_seconds > 0
    assert usage.rss_mib > 1


def test_the_table_has_a_dash_for_what_was_not_measured():
    lines = table({10: {FIGURES[0]: 5_000.0}, 40_000: {}}).splitlines()
    assert lines[0] == "| | 10 subjects | 40,000 subjects |"
    assert lines[2] == f"| {FIGURES[0]} | 5,000 | - |"
    assert len(lines) == 2 + len(FIGURES)
