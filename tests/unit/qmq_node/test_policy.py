"""Policy documents, the file they are kept in, and what they let in of a send."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmq.errors import ProtocolError
from qmq.protocol.messages import encode_entry
from qmq.protocol.names import is_subject_refusal
from qmq.protocol.scan import BatchScanner, Run
from qmq_node import policy as p
from qmq_node.metaservers.policy_in_force import policy_file
from qmq_node.policy import EMPTY_POLICY, NodePolicy, SubjectPolicy, decode_policy, encode_policy
from qmq_node.requests.send_gate import SendGate, TokenBucket
from tests.support.disks.memory_disk import MemoryDisk, SimulatedCrash
from tests.support.drivers.in_process import message
from tests.support.manual_clock import ManualClock

names = st.text(st.characters(codec="utf-8", categories=("L", "N")), min_size=1, max_size=20)
rates = st.none() | st.integers(1, 1 << 40)
rules = st.builds(
    SubjectPolicy,
    st.booleans(),
    rates,
    rates,
    st.none() | st.floats(0.001, 1000),
    st.none() | st.lists(names, max_size=4, unique=True).map(lambda groups: tuple(sorted(groups))),
)
policies = st.builds(
    NodePolicy.of,
    st.dictionaries(names, rules, max_size=5),
    st.lists(st.tuples(names, names, st.just("") | names), max_size=5),
    st.text(st.characters(codec="utf-8"), max_size=50),
)


@given(policies)
def test_a_policy_round_trips_and_equal_content_has_one_version(policy: NodePolicy) -> None:
    assert decode_policy(encode_policy(policy)) == policy
    turned = NodePolicy.of(
        dict(reversed(list(policy.subjects.items()))), sorted(policy.paused, reverse=True), policy.read_only
    )
    assert turned.version == policy.version
    other = NodePolicy.of(policy.subjects, policy.paused, policy.read_only + "!")
    assert other.version != policy.version


def test_the_version_goes_by_content_alone() -> None:
    assert NodePolicy.of({"s": SubjectPolicy(retention_hours=24)}) == NodePolicy.of(
        {"s": SubjectPolicy(retention_hours=24.0)}
    )
    assert NodePolicy.of({"s": SubjectPolicy(allowed_groups=("b", "a"))}) == NodePolicy.of(
        {"s": SubjectPolicy(allowed_groups=("a", "b", "a"))}
    )
    assert NodePolicy.of({"s": SubjectPolicy(allowed_groups=())}) != NodePolicy.of({"s": SubjectPolicy()})


def document(**fields: Any) -> bytes:
    return json.dumps({"version": "v", **fields}).encode()


def test_unknown_keys_are_ignored_and_missing_ones_take_their_default() -> None:
    found = decode_policy(document(subjects={"s": {"closed": True, "colour": "red"}}, future=[1]))
    assert found == NodePolicy("v", {"s": SubjectPolicy(closed=True)})


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"version": 7}, "version"),
        ({"version": ""}, "version"),
        ({"subjects": []}, "subjects"),
        ({"subjects": {"s": 1}}, "subjects['s']"),
        ({"subjects": {"a b": {}}}, "subjects['a b']"),
        ({"subjects": {"": {}}}, "subjects['']"),
        ({"subjects": {"%RETRY%s%g": {}}}, "retry or dead-letter"),
        ({"subjects": {"%DEAD_RETRY%s%g": {}}}, "retry or dead-letter"),
        ({"subjects": {"s": {"closed": 1}}}, "closed"),
        ({"subjects": {"s": {"messages_per_second": 1.5}}}, "messages_per_second"),
        ({"subjects": {"s": {"messages_per_second": True}}}, "messages_per_second"),
        ({"subjects": {"s": {"messages_per_second": 0}}}, "messages_per_second"),
        ({"subjects": {"s": {"bytes_per_second": -1}}}, "bytes_per_second"),
        ({"subjects": {"s": {"bytes_per_second": "9"}}}, "bytes_per_second"),
        ({"subjects": {"s": {"retention_hours": "1"}}}, "retention_hours"),
        ({"subjects": {"s": {"retention_hours": 0}}}, "retention_hours"),
        ({"subjects": {"s": {"retention_hours": float("nan")}}}, "retention_hours"),
        ({"subjects": {"s": {"retention_hours": float("inf")}}}, "retention_hours"),
        ({"subjects": {"s": {"allowed_groups": "g"}}}, "allowed_groups"),
        ({"subjects": {"s": {"allowed_groups": [1]}}}, "allowed_groups"),
        ({"paused": {}}, "paused"),
        ({"paused": [["s", "g"]]}, "paused[0]"),
        ({"paused": [["s", "g", ""], ["s", "", ""]]}, "paused[1]"),
        ({"paused": [["%RETRY%s%g", "g", ""]]}, "paused[0]"),
        ({"read_only": None}, "read_only"),
        ({"read_only": "x" * 501}, "read_only"),
    ],
)
def test_a_wrong_field_is_refused_by_name(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_policy(document(**fields))
    assert named in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b"null", b'"x"', b"[" * 100_000])
def test_what_is_no_document_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="policy"):
        decode_policy(data)


def test_each_limit_is_named_when_it_is_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    full = NodePolicy.of({"a": SubjectPolicy(allowed_groups=("x", "y")), "b": SubjectPolicy()}, [("a", "g", "c")] * 3)
    for limit, value, what in (
        ("POLICY_SUBJECTS_MAX", 1, "subjects"),
        ("POLICY_PAUSES_MAX", 0, "paused"),
        ("ALLOWED_GROUPS_MAX", 1, "allowed_groups"),
        ("POLICY_BYTES_MAX", 50, "bytes"),
    ):
        data = encode_policy(full)
        with monkeypatch.context() as patched:
            patched.setattr(p, limit, value)
            with pytest.raises(ProtocolError, match=what):
                decode_policy(data)
    with monkeypatch.context() as patched:
        patched.setattr(p, "POLICY_BYTES_MAX", 50)
        with pytest.raises(ProtocolError, match="50"):
            encode_policy(full)
    with pytest.raises(ProtocolError, match="UTF-8"):
        encode_policy(NodePolicy.of(read_only="\ud800"))


@pytest.mark.slow
def test_the_largest_policy_fits_what_a_node_takes() -> None:
    subjects = {f"subject-{n:020d}": SubjectPolicy(True) for n in range(p.POLICY_SUBJECTS_MAX)}
    assert decode_policy(encode_policy(NodePolicy.of(subjects))).subjects == subjects


# --- the file ---------------------------------------------------------------------------------------------------------


def test_the_file_keeps_the_newest_document_and_knows_damage() -> None:
    disk = MemoryDisk()
    disk.make_dir("data")
    file = policy_file(disk, "data")
    assert file.load() is None
    first, second = NodePolicy.of(read_only="a"), NodePolicy.of({"s": SubjectPolicy(True)})
    file.save(encode_policy(first))
    assert file.load() == encode_policy(first)
    file.save(encode_policy(second))
    assert policy_file(disk, "data").load() == encode_policy(second)
    raw = disk.open("data/policy", writable=True)
    byte = raw.pread(1, 40)
    raw.pwritev([bytes([byte[0] ^ 1])], 40)
    with pytest.raises(OSError, match="check"):
        file.load()
    raw.truncate(10)
    with pytest.raises(OSError, match="check"):
        file.load()
    file.save(encode_policy(first))
    assert file.load() == encode_policy(first)


def test_a_power_cut_anywhere_leaves_the_old_policy_or_the_new_one() -> None:
    old, new = NodePolicy.of(read_only="old"), NodePolicy.of({"s": SubjectPolicy(True)}, read_only="new" * 100)
    seen = set()
    for crash_at in range(20):
        disk = MemoryDisk()
        disk.make_dir("data")
        policy_file(disk, "data").save(encode_policy(old))
        disk.crash_at = disk.steps + crash_at
        try:
            policy_file(disk, "data").save(encode_policy(new))
            is_whole = True
        except SimulatedCrash:
            is_whole = False
        for state in disk.crash_states(10, seed=crash_at):
            found = policy_file(state, "data").load()
            assert found in map(encode_policy, (new,) if is_whole else (old, new))
            seen.add((is_whole, found == encode_policy(new)))
            policy_file(state, "data").save(encode_policy(new))
            assert policy_file(state, "data").load() == encode_policy(new)
    assert seen == {(False, False), (False, True), (True, True)}


# --- sends ------------------------------------------------------------------------------------------------------------


def run_of(subject: str, count: int, size: int = 0) -> tuple[bytes, Run]:
    data = b"".join(encode_entry(message(n, subject, size=size)) for n in range(count))
    runs, failures = BatchScanner().scan(data)
    assert not failures
    return data, runs[0]


def gate(clock: ManualClock, **rule: Any) -> SendGate:
    made = SendGate(clock)
    made.apply(NodePolicy.of({"s": SubjectPolicy(**rule)}))
    return made


@given(st.integers(1, 50), st.lists(st.tuples(st.floats(0, 3), st.integers(1, 60)), max_size=40))
def test_over_any_time_no_more_passes_than_the_rate_and_one_burst(rate: int, sends: list[tuple[float, int]]) -> None:
    clock = ManualClock()
    made = gate(clock, messages_per_second=rate)
    began, passed = clock.monotonic(), 0
    for pause, count in sends:
        clock.advance(pause)
        taken, refusal = made.judge(run_of("s", count)[1])
        assert (refusal is None) == (taken == count)
        passed += taken
        assert passed <= rate * (clock.monotonic() - began) + rate + 1e-6
        if refusal is not None:
            # What was refused is no more than had to be: less than one message of room is left.
            assert made.judge(run_of("s", 1)[1])[0] == 0


def test_a_quota_refuses_the_rest_of_a_run_as_busy_and_names_itself() -> None:
    clock = ManualClock()
    made = gate(clock, messages_per_second=3, bytes_per_second=1 << 20)
    taken, refusal = made.judge(run_of("s", 5)[1])
    assert taken == 3
    assert refusal is not None
    assert refusal.reason == "quota"
    assert "3 messages a second and 1048576 bytes a second" in refusal.remark
    assert is_subject_refusal(refusal.remark)
    clock.advance(0.5)
    assert made.judge(run_of("s", 5)[1])[0] == 1
    clock.advance(0.5)
    assert made.judge(run_of("s", 5)[1])[0] == 2
    assert made.judge(run_of("other", 500)[1]) == (500, None)


def test_bytes_are_counted_and_a_message_larger_than_the_burst_is_owed() -> None:
    clock = ManualClock()
    size = run_of("s", 1, 100)[1].raw_sizes()[0]
    made = gate(clock, bytes_per_second=2 * size)
    assert made.judge(run_of("s", 5, 100)[1])[0] == 2
    clock.advance(1)
    big = run_of("s", 2, 10 * 100)[1]
    assert made.judge(big)[0] == 1
    owed = big.raw_sizes()[0] / (2 * size)
    clock.advance(owed - 0.1)
    assert made.judge(big)[0] == 0
    clock.advance(0.1 + 1e-6)
    assert made.judge(big)[0] == 1


def test_a_closed_subject_takes_nothing_and_its_retry_subject_everything() -> None:
    made = gate(ManualClock(), closed=True, messages_per_second=1)
    taken, refusal = made.judge(run_of("s", 2)[1])
    assert taken == 0
    assert refusal is not None
    assert refusal.reason == "closed"
    assert is_subject_refusal(refusal.remark)
    for name in ("%RETRY%s%g", "%DEAD_RETRY%s%g"):
        assert made.judge(run_of(name, 9)[1]) == (9, None)


def test_a_new_policy_keeps_the_bucket_of_an_unchanged_quota() -> None:
    clock = ManualClock()
    made = gate(clock, messages_per_second=2)
    assert made.judge(run_of("s", 2)[1])[0] == 2
    made.apply(NodePolicy.of({"s": SubjectPolicy(messages_per_second=2, retention_hours=1), "t": SubjectPolicy(True)}))
    assert made.judge(run_of("s", 2)[1])[0] == 0
    made.apply(NodePolicy.of({"s": SubjectPolicy(messages_per_second=3)}))
    assert made.judge(run_of("s", 9)[1])[0] == 3
    made.apply(NodePolicy.of({"s": SubjectPolicy(retention_hours=1)}))
    assert not made
    made.apply(EMPTY_POLICY)
    assert made.judge(run_of("s", 9)[1]) == (9, None)


def test_a_clock_that_stands_or_a_bucket_in_debt_gives_nothing() -> None:
    bucket = TokenBucket(10, 5.0)
    bucket.take(25)
    assert bucket.whole == 0
    bucket.refill(4.0)
    assert bucket.whole == 0
    bucket.refill(6.4)
    assert not bucket.has(1)
    bucket.refill(6.7)
    assert bucket.has(1)
    bucket.refill(1e9)
    assert bucket.whole == 10


@given(st.integers(1, 6), st.integers(1, 6))
def test_the_first_messages_of_a_run_are_a_run(count: int, taken: int) -> None:
    data, run = run_of("s", count)
    taken = min(taken, count)
    first = run.part(0, taken)
    alone, failures = BatchScanner().scan(data[first.begin : first.end])
    assert not failures
    assert alone[0] == first
    assert first.raw_sizes() == run.raw_sizes()[:taken]
