"""The broker's pure parts: actions, runs, progress, filters, rates, lag."""

import itertools
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_node.storage.actions import (
    Ack,
    Action,
    DropSubject,
    Forget,
    MessagesHead,
    Offline,
    Pull,
    RecordKind,
    SequenceRun,
    Settle,
    Start,
    decode_action,
    decode_messages_head,
    encode_action,
    encode_messages_head,
    runs_of,
)
from broker_node.storage.progress import GroupProgress
from broker_node.storage.pull_log import PullLog
from broker_node.storage.rates import Meter, RateTable
from broker_node.storage.sessions import Session
from qmq.errors import LogError
from qmq.lag import drain_seconds, lag_of, time_lag_seconds

names = st.text(st.characters(codec="utf-8"), max_size=20)
numbers = st.integers(0, 2**62)
heads = (names, names, names, numbers, st.booleans())
actions = st.one_of(
    st.builds(Ack, *heads, numbers, numbers),
    st.builds(Settle, *heads, numbers, numbers),
    st.builds(Offline, *heads),
    st.builds(Forget, *heads),
    st.builds(DropSubject, *heads, numbers, numbers),
    st.builds(Start, *heads, numbers, st.integers(0, 255)),
    st.builds(
        Pull, *heads, numbers, numbers, numbers,
        st.lists(st.builds(SequenceRun, numbers, st.integers(1, 2**31)), max_size=5).map(tuple),
    ),
)  # fmt: skip


@given(actions)
def test_actions_round_trip_and_cut_ones_are_refused(action: Action) -> None:
    kind, payload = encode_action(action)
    assert decode_action(kind, memoryview(payload)) == action
    with pytest.raises(LogError):
        decode_action(kind, memoryview(payload)[:-1])


@given(names, numbers, numbers, st.integers(0, 2**31), st.integers(0, 1))
def test_message_heads_round_trip(subject: str, first: int, at: int, count: int, origin: int) -> None:
    head = MessagesHead(subject, first, at, count, origin)
    payload = encode_messages_head(subject, first, at, count, origin)
    assert decode_messages_head(memoryview(payload + b"rest")) == (head, len(payload))


def test_a_record_of_a_newer_version_says_so() -> None:
    _, payload = encode_action(Offline("s", "g", "c", 1, False))
    with pytest.raises(LogError, match="newer"):
        decode_action(99, memoryview(payload))


@given(st.sets(st.integers(0, 60)))
def test_runs_hold_just_the_sequences(sequences: set[int]) -> None:
    runs = runs_of(sorted(sequences))
    assert [n for run in runs for n in range(run.begin, run.end)] == sorted(sequences)
    assert all(a.end < b.begin for a, b in itertools.pairwise(runs))


class _Peer:
    peer = "127.0.0.1:1"
    is_closed = False


@given(
    st.lists(
        st.tuples(
            st.sets(st.integers(0, 200), min_size=1, max_size=8),
            st.tuples(st.integers(0, 40), st.integers(0, 6)),
            st.tuples(st.integers(0, 40), st.integers(0, 6)),
            st.integers(0, 2),
        ),
        max_size=20,
    )
)
def test_a_pull_log_answers_as_a_plain_dict_would(
    steps: list[tuple[set[int], tuple[int, int], tuple[int, int], int]],
) -> None:
    peers = [_Peer(), _Peer()]
    sessions = [None, *(Session(ref(peer), 0.0) for peer in peers)]
    log, pulled = PullLog(), 0
    plain: dict[int, tuple[int, Session | None]] = {}
    for sequences, (ack_at, acks), (hold_at, holds), who in steps:
        log.assign(pulled, runs_of(sorted(sequences)), sessions[who])
        plain.update(enumerate(((n, sessions[who]) for n in sorted(sequences)), pulled))
        pulled += len(sequences)
        log.hold(hold_at, hold_at + holds, sessions[-who])
        plain.update({n: (plain[n][0], sessions[-who]) for n in range(hold_at, hold_at + holds) if n in plain})
        log.ack(ack_at, ack_at + acks)
        plain = {n: held for n, held in plain.items() if not ack_at <= n < ack_at + acks}
        assert {
            run.pull_begin + i: (run.begin + i, run.holder) for run in log.between(0, 10_000) for i in range(run.count)
        } == plain
        assert log.in_flight == sum(run.count for run in log.runs()) == len(plain)
        assert (log.pulled, log.acked) == (pulled, min(plain, default=pulled))
        assert log.oldest_sequence() == min((sequence for sequence, _ in plain.values()), default=None)
        low, high = sorted((ack_at, hold_at))
        middle = {run.pull_begin + i for run in log.between(low, high) for i in range(run.count)}
        assert middle == {n for n in plain if low <= n < high}
        parts = log.held(low, high)
        assert {n for begin, end in parts for n in range(begin, end)} == middle
        assert all(a[1] < b[0] for a, b in itertools.pairwise(parts))
        held = {n: holder for begin, end, holder in log.holders(low, high) for n in range(begin, end)}
        assert held == {n: plain[n][1] if n in plain else None for n in range(low, high)}
        stored = log.runs_without_holders()
        assert {run.pull_begin + i: run.begin + i for run in stored for i in range(run.count)} == {
            n: sequence for n, (sequence, _) in plain.items()
        }
        assert not any((a.pull_end, a.end) == (b.pull_begin, b.begin) for a, b in itertools.pairwise(stored))
        restored = PullLog()
        restored.restore(stored)
        assert restored.in_flight == log.in_flight


def test_acks_in_order_keep_the_runs_of_a_pull_log_few() -> None:
    log = PullLog()
    for n in range(0, 1000, 10):
        log.assign(n, (SequenceRun(n, 10),))
        log.ack(n, n + 5)
        assert len(log) == 1
        log.ack(n, n + 10)
        assert log.in_flight == 0


@given(st.lists(actions, max_size=30), st.data())
def test_applying_actions_again_changes_nothing(items: list[Action], data: st.DataObject) -> None:
    def state(progress: GroupProgress) -> object:
        logs = {c.consumer_id: c.log for c in progress.consumers.values()}
        runs = {name: [(r.pull_begin, r.begin, r.count) for r in log.runs()] for name, log in logs.items()}
        return progress.next_sequence, {name: (log.acked, log.pulled) for name, log in logs.items()}, runs

    once = GroupProgress("s", "g", 0)
    for at, action in enumerate(items):
        once.apply(action, at, 0.0)
    twice = GroupProgress("s", "g", 0)
    restart = data.draw(st.integers(0, len(items)))
    for at, action in [*enumerate(items), *list(enumerate(items))[restart:]]:
        twice.apply(action, at, 0.0)
    assert state(once) == state(twice)


def test_a_lost_assignment_leaves_orphans() -> None:
    progress = GroupProgress("s", "g", 0)
    progress.apply(Pull("s", "g", "c", 1, False, 0, 0, 5, (SequenceRun(0, 5),)), 10, 0.0)
    progress.apply(Pull("s", "g", "c", 1, False, 9, 9, 12, (SequenceRun(9, 3),)), 30, 0.0)
    assert progress.orphans == [SequenceRun(5, 4)]
    assert progress.next_sequence == 12


def test_what_a_consumer_held_when_it_left_is_retried() -> None:
    """It is settled before: it holds something only when that settlement is lost to damage. A broadcast is not settled."""
    for broadcast, orphans in ((False, [SequenceRun(2, 3)]), (True, [])):
        progress = GroupProgress("s", "g", 0)
        progress.apply(Pull("s", "g", "c", 1, broadcast, 0, 0, 5, (SequenceRun(0, 5),)), 10, 0.0)
        progress.apply(Ack("s", "g", "c", 1, broadcast, 0, 2), 20, 0.0)
        progress.apply(Offline("s", "g", "c", 1, broadcast), 40, 0.0)
        assert progress.orphans == orphans
        assert progress.in_flight == 0


def test_a_consumer_whose_leaving_is_lost_begins_again() -> None:
    progress = GroupProgress("s", "g", 0)
    progress.apply(Pull("s", "g", "c", 1, False, 0, 0, 9, (SequenceRun(0, 5), SequenceRun(7, 2))), 10, 0.0)
    progress.apply(Ack("s", "g", "c", 1, False, 0, 4), 20, 0.0)
    progress.apply(Pull("s", "g", "c", 1, False, 0, 9, 12, (SequenceRun(9, 3),)), 40, 0.0)
    assert progress.orphans == [SequenceRun(4, 1), SequenceRun(7, 2)]
    log = progress.consumers["c"].log
    assert (log.acked, log.pulled, log.in_flight) == (0, 3, 3)
    progress.apply(Ack("s", "g", "c", 1, False, 0, 3), 50, 0.0)
    assert (log.acked, progress.in_flight) == (3, 0)


def test_record_kinds_are_for_ever() -> None:
    assert {kind.name: int(kind) for kind in RecordKind} == {
        "MESSAGES": 1,
        "PULL": 2,
        "ACK": 3,
        "OFFLINE": 4,
        "START": 5,
        "FORGET": 6,
        "SETTLE": 7,
        "DROP_SUBJECT": 8,
    }


def test_lag_is_defined_once() -> None:
    assert lag_of(100, 60, 0, 7).total == 47
    assert lag_of(100, 10, 90, 0).backlog == 10
    assert time_lag_seconds(10_000, 4_000) == 6.0
    assert time_lag_seconds(10_000, None) == 0.0
    assert time_lag_seconds(10_000, 99_000) == 0.0
    assert drain_seconds(100, 30.0, 10.0) == 5.0
    assert drain_seconds(100, 10.0, 10.0) is None
    assert drain_seconds(0, 0.0, 10.0) == 0.0


class _Rates(RateTable):
    """Rates of one counter."""

    def __init__(self) -> None:
        super().__init__()
        self.meter, self.total = Meter(), 0

    def add(self, at: float, increase: int) -> None:
        self.total += increase
        self.begin(at)
        self.count(self.meter, self.total, 0)

    @property
    def recent(self) -> float | None:
        rates = self.per_second(self.meter)
        return rates[0] if rates else None

    @property
    def steady(self) -> float | None:
        rates = self.steady_per_second(self.meter)
        return rates[0] if rates else None


def test_rates_are_a_mean_over_the_last_ten_seconds() -> None:
    rates = _Rates()
    assert rates.recent is None
    rates.add(0.0, 1000)
    assert rates.recent is None
    rates.add(2.0, 10)
    assert rates.recent == 5.0
    assert rates.per_second(Meter()) == (0.0, 0.0)
    for second in range(3, 40):
        rates.add(float(second), 10)
    assert rates.recent == 10.0
    for second in range(40, 60):
        rates.add(float(second), 0)
    assert rates.recent == 0.0
    assert not any(rates._samples), "a quiet meter costs nothing"


def test_a_counter_that_increases_again_after_a_rest_has_a_rate_at_once() -> None:
    rates = _Rates()
    for second in range(100):
        rates.add(float(second), 10 if second < 20 else 0)
    assert rates.recent == 0.0
    rates.add(100.0, 30)
    assert rates.recent == 3.0


def test_an_increase_that_is_sampled_at_the_time_of_the_last_sample_counts_for_the_next() -> None:
    rates = _Rates()
    rates.add(0.0, 0)
    rates.add(1.0, 5)
    rates.add(1.0, 7)
    assert rates.recent == 5.0
    rates.add(2.0, 0)
    assert rates.recent == 6.0


def test_steady_rates_are_smoothed_over_minutes() -> None:
    rates = _Rates()
    assert rates.steady is None
    rates.add(0.0, 0)
    rates.add(1.0, 7)
    assert rates.steady == pytest.approx(7)
    for second in range(2, 601):
        rates.add(float(second), 14 if second % 2 else 0)
    steady = rates.steady
    assert steady == pytest.approx(7, rel=0.02)
    assert rates.recent == 7.0
    rates.add(601.0, 100)
    jumped = rates.steady
    assert jumped is not None
    assert steady is not None
    assert jumped - steady == pytest.approx(100 / 120, rel=0.1)
    for second in range(602, 2600):
        rates.add(float(second), 0)
    assert rates.steady == 0.0
