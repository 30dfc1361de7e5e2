"""The broker's scanner agrees with the plain decoder, and refuses what would poison a consumer."""

from contextlib import suppress
from dataclasses import replace
from itertools import accumulate, pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qmq.errors import ProtocolError
from qmq.protocol.codes import SendResult
from qmq.protocol.messages import Message, decode_raw, encode_entry, encode_raw
from qmq.protocol.raw import RawView, property_lengths, property_places, tags_of
from qmq.protocol.scan import (
    COPIED_BYTES_MAX,
    CRC_BYTES,
    LAYOUT_HEAD_BYTES_MAX,
    LAYOUTS_MAX,
    BadChecksum,
    BatchScanner,
    EntryLimits,
    tag_digest,
    walk_raws,
    walk_stored,
)
from tests.support.load.nonsense import entry

CREATED = {"qmq_createTime": "1600000000000"}
CREATED_TIME = (b"qmq_createTime", b"1600000000000")


def message(number: int, subject: str = "orders", tags: tuple[str, ...] = (), **properties: str) -> Message:
    return Message(subject, f"m{number}", {**CREATED, **properties}, tags, 0, 1600000000000, 1600000000001)


def body_of(*messages: Message) -> memoryview:
    return memoryview(b"".join(encode_entry(item) for item in messages))


texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b"]), st.lists(texts, max_size=3), st.sampled_from(["", "x", "yy"])),
        max_size=30,
    )
)
def test_runs_hold_the_messages_as_they_came(items: list[tuple[str, list[str], str]]) -> None:
    messages = [message(100 + i, subject, tuple(tags), k=value) for i, (subject, tags, value) in enumerate(items)]
    body = body_of(*messages)
    runs, failures = BatchScanner().scan(bytes(body))
    assert not failures
    found = []
    for run in runs:
        assert bytes(body[run.begin : run.end]) == b"".join(
            encode_entry(item) for item in messages[len(found) : len(found) + run.count]
        )
        for begin, size, bits in zip(run.raw_begins, run.raw_sizes(), run.tag_bits, strict=True):
            read, end = decode_raw(body, begin)
            assert end == begin + size
            assert bits == tag_digest([tag.encode() for tag in read.tags])
            assert read.subject == run.subject
            found.append(read.message_id)
        stored = walk_stored(body[run.begin : run.end], run.subject)
        assert stored.crcs == run.crcs
        assert [begin + run.begin for begin in stored.raw_begins] == run.raw_begins
    assert found == [item.message_id for item in messages]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["m", "m2"]), st.sampled_from(["k", "kk"]), st.integers(0, 3), st.sampled_from([(), ("t",)])
        ),
        max_size=6,
    )
)
@example([("m", "k", 1, ()), ("m", "k", 2, ()), ("m", "k", 0, ())])
@example([("m", "k", 1, ()), ("m", "kk", 0, ()), ("m2", "k", 0, ())])
@example([("m", "k", 3, ()), ("m", "k", 0, ("t",)), ("m", "k", 3, ())])
@example([("m", "k", 1, ("t",)), ("m", "k", 1, ("t",))])
def test_stored_messages_are_found_whatever_their_lengths(items: list[tuple[str, str, int, tuple[str, ...]]]) -> None:
    messages = [Message("orders", message_id, {key: "v" * size}, tags) for message_id, key, size, tags in items]
    run, entries = walk_stored(body_of(*messages), "orders"), [encode_entry(item) for item in messages]
    ends = [0, *accumulate(map(len, entries))]
    assert run.raw_begins == [end + CRC_BYTES for end in ends[:-1]]
    assert run.end == ends[-1]
    assert run.crcs == [int.from_bytes(entry[:CRC_BYTES], "big") for entry in entries]
    assert run.tag_bits == [tag_digest([tag.encode() for tag in item.tags]) for item in messages]


@given(st.lists(texts, max_size=3), st.dictionaries(texts, st.text(max_size=9), max_size=4))
def test_lengths_and_tags_are_those_of_a_view(tags: list[str], properties: dict[str, str]) -> None:
    raw = b"before" + encode_raw(Message("orders", "m1", properties, tuple(tags)))
    view = RawView(raw, 6)
    assert tags_of(raw, 6) == [tag.encode() for tag in view.tags]
    places = [
        end - begin
        for place in property_places(raw, view.properties_begin, view.end)
        for begin, end in (place[:2], place[2:])
    ]
    assert property_lengths(raw, view.properties_begin, view.end) == places
    for end in range(view.properties_begin, view.end):
        with suppress(ProtocolError):
            assert sum(property_lengths(raw[:end], view.properties_begin, end)) < sum(places)


def test_messages_whose_create_time_is_not_their_first_property_are_taken() -> None:
    last = [Message("orders", f"m{i}", {"a": "b" * i, "bc": "", **CREATED}) for i in range(5)]
    ((run,), failures) = BatchScanner().scan(bytes(body_of(*last)))
    assert (run.count, failures) == (5, [])


def test_many_messages_of_one_shape_are_scanned_the_same() -> None:
    messages = [message(1000 + i, k="v" * 20) for i in range(200)]
    ((run,), failures) = BatchScanner().scan(bytes(body_of(*messages)))
    assert run.count == 200
    assert not failures
    assert [decode_raw(body_of(*messages), begin)[0] for begin in run.raw_begins] == messages


@pytest.mark.parametrize("is_known", [False, True])
def test_one_wrong_byte_anywhere_is_noticed(*, is_known: bool) -> None:
    good = bytes(body_of(*[message(100 + i, k="v") for i in range(5)]))
    scanner = BatchScanner()
    for place in range(len(good)):
        bad = bytearray(good)
        bad[place] ^= 0x10
        if is_known:
            scanner.scan(good)
        with pytest.raises(ProtocolError):
            (scanner if is_known else BatchScanner()).scan(bytes(bad))


@pytest.mark.parametrize("size", [COPIED_BYTES_MAX - 200, COPIED_BYTES_MAX + 1])
@pytest.mark.parametrize("count", [1, 5])
def test_a_wrong_byte_of_a_known_layout_is_noticed_in_small_and_large_messages(size: int, count: int) -> None:
    good = bytes(body_of(*[message(100 + i, k="v" * size) for i in range(count)]))
    scanner = BatchScanner()
    for _ in range(3):
        scanner.scan(good)
    (layouts,) = scanner._layouts.values()
    assert layouts.template is not None
    assert (layouts.template.raw is None) == (size > COPIED_BYTES_MAX)
    for place in (0, 7, len(good) // 2, len(good) - 1):
        bad = bytearray(good)
        bad[place] ^= 0x10
        with pytest.raises(ProtocolError):
            scanner.scan(bytes(bad))


batches = st.lists(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "illegal name"]),
            st.sampled_from(["1", "22"]),
            st.sampled_from(["", "x", "yy"]),
            st.sampled_from(["1600000000000", "16000000000", "soon in July!"]),
            st.sampled_from([(), ("t",)]),
        ),
        max_size=12,
    ),
    max_size=6,
)


@given(batches)
def test_a_scanner_judges_a_batch_the_same_whatever_it_scanned_before(
    batches: list[list[tuple[str, str, str, str, tuple[str, ...]]]],
) -> None:
    scanner = BatchScanner(EntryLimits(200))
    for items in batches:
        body = bytes(
            body_of(
                *(
                    Message(subject, f"m{number}", {"k": value * 30, "qmq_createTime": created}, tags)
                    for subject, number, value, created, tags in items
                    for _ in range(3)
                )
            )
        )
        assert scanner.scan(body) == BatchScanner(EntryLimits(200)).scan(body)


def test_a_scanner_remembers_a_limited_number_of_subjects() -> None:
    scanner = BatchScanner()
    for number in range(LAYOUTS_MAX + 100):
        scanner.scan(bytes(body_of(message(1, f"s{number:05}"), message(2, f"s{number:05}"))))
    assert len(scanner._layouts) == LAYOUTS_MAX
    long = f"%RETRY%orders%{'g' * LAYOUT_HEAD_BYTES_MAX}"
    ((run,), failures) = scanner.scan(bytes(body_of(message(1, long), message(2, long))))
    assert (run.subject, run.count, failures) == (long, 2, [])
    assert not [head for head in scanner._layouts if len(head) > LAYOUT_HEAD_BYTES_MAX]


def test_a_wrong_crc_says_so() -> None:
    bad = bytearray(body_of(message(1)))
    bad[7] ^= 1
    with pytest.raises(BadChecksum):
        BatchScanner().scan(bytes(bad))


@pytest.mark.parametrize(
    ("bad", "result", "words"),
    [
        (Message("or ders", "m1", CREATED), SendResult.SUBJECT_NOT_ASSIGNED, "message rejected"),
        (Message("or/ders", "m1", CREATED), SendResult.SUBJECT_NOT_ASSIGNED, "message rejected"),
        (Message("x" * 101, "m1", CREATED), SendResult.SUBJECT_NOT_ASSIGNED, "message rejected"),
        (Message("orders", "m1", {}), SendResult.BLOCK, "qmq_createTime is missing"),
        (Message("orders", "m1", {"qmq_createTime": "soon"}), SendResult.BLOCK, "not a number"),
    ],
)
def test_what_would_stop_a_consumer_is_refused_alone(bad: Message, result: SendResult, words: str) -> None:
    runs, (failure,) = BatchScanner().scan(bytes(body_of(message(0), bad, message(2))))
    assert (failure.message_id, failure.result) == ("m1", result)
    assert words in failure.remark
    assert sum(run.count for run in runs) == 2


def test_too_many_tags_long_ids_and_wide_values_are_refused() -> None:
    import struct
    from zlib import crc32

    def entry(raw: bytes) -> bytes:
        return struct.pack(">q", crc32(raw)) + raw

    raw = bytearray(encode_raw(message(1, tags=tuple("abcdefghij"))))
    at = 17 + 2 + len("orders") + 2 + len("m1")
    raw[at] = 11
    raw[at + 1 : at + 1] = b"\x00\x01k"
    wide = struct.pack(">bqqH6sH2s", 0, 1, 1, 6, b"orders", 2, b"m2")
    attributes = b"\x00\x0eqmq_createTime\x00\x011" + b"\x00\x01k" + struct.pack(">H", 40000) + b"x" * 40000
    wide += struct.pack(">i", len(attributes)) + attributes
    long_id = struct.pack(">bqqH6sH101s", 0, 1, 1, 6, b"orders", 101, b"m" * 101)
    attributes = b"\x00\x0eqmq_createTime\x00\x011"
    long_id += struct.pack(">i", len(attributes)) + attributes
    runs, failures = BatchScanner().scan(entry(bytes(raw)) + entry(wide) + entry(long_id))
    assert not runs
    assert [failure.result for failure in failures] == [SendResult.BLOCK] * 3
    assert ["tags" in f.remark or "bytes" in f.remark or "characters" in f.remark for f in failures] == [True] * 3


@pytest.mark.parametrize("message_id", ["", "m1"])
def test_an_empty_subject_or_id_refuses_the_request(message_id: str) -> None:
    import struct
    from zlib import crc32

    subject = b"" if message_id else b"orders"
    raw = struct.pack(
        f">bqqH{len(subject)}sH{len(message_id)}si",
        0,
        1,
        1,
        len(subject),
        subject,
        len(message_id),
        message_id.encode(),
        0,
    )
    with pytest.raises(ProtocolError, match="empty"):
        BatchScanner().scan(struct.pack(">q", crc32(raw)) + raw)


def test_an_empty_batch_is_legal() -> None:
    assert BatchScanner().scan(memoryview(b"")) == ([], [])


def test_messages_in_an_answer_are_counted_by_their_lengths() -> None:
    raws = b"".join(encode_raw(message(i, tags=("a", "b") if i % 2 else ())) for i in range(7))
    assert walk_raws(memoryview(raws)) == 7
    with pytest.raises(ProtocolError):
        walk_raws(memoryview(raws[:-30]))


@given(sizes=st.lists(st.integers(0, 400), min_size=1, max_size=30), bytes_max=st.integers(1, 3000))
def test_a_long_run_is_split_into_runs_of_a_size_without_losing_a_message(sizes: list[int], bytes_max: int) -> None:
    body = bytes(
        body_of(*(replace(message(n), properties={**CREATED, "d": "x" * size}) for n, size in enumerate(sizes)))
    )
    (run,), _ = BatchScanner().scan(body)
    parts = list(run.split(bytes_max))
    assert [place for part in parts for place in part.raw_begins] == run.raw_begins
    assert [crc for part in parts for crc in part.crcs] == run.crcs
    assert b"".join(body[part.begin : part.end] for part in parts) == body
    assert all(part.end - part.begin <= bytes_max or part.count == 1 for part in parts)
    for part in parts:
        (alone,), failures = BatchScanner().scan(body[part.begin : part.end])
        assert (alone.count, failures) == (part.count, [])
    for part, following in pairwise(parts):
        first = following.part(0, 1)
        assert part.end - part.begin + first.end - first.begin > bytes_max, "each is as long as it may be"


def test_a_message_above_the_limit_is_a_failure_of_its_own_whatever_its_shape() -> None:
    small, large = message(0), replace(message(0), properties={**CREATED, "d": "x" * 500})
    body = bytes(
        body_of(*(replace(small, message_id=f"s{n}") for n in range(5)), large, small, small, large, large, small)
    )
    runs, failures = BatchScanner(EntryLimits(400)).scan(body)
    assert sum(run.count for run in runs) == 8
    assert [failure.result for failure in failures] == [SendResult.BLOCK] * 3
    assert "the limit of one message is 400 (message_bytes_max)" in failures[0].remark


BAD_IDS = ["m\n1", "m\x1b1", "m\x001", "m\x7f1", "m\x9b1", "m\u202e1", "m\u20281", "m\u061c1"]


@pytest.mark.parametrize("message_id", [*(text.encode() for text in BAD_IDS), b"m\xff1", b"m\xed\xa0\x80"])
@pytest.mark.parametrize("before", [0, 5])
def test_ids_with_control_characters_are_refused_alone(message_id: bytes, before: int) -> None:
    def body(subject: str) -> bytes:
        ids = [message_id if number == before else b"m%d" % number for number in range(2 * before + 1)]
        return b"".join(entry(subject, own_id.ljust(8, b"x"), CREATED_TIME) for own_id in ids)

    scanner = BatchScanner()
    runs, (failure,) = scanner.scan(body("orders"))
    assert (failure.result, sum(run.count for run in runs)) == (SendResult.BLOCK, 2 * before)
    assert "the message id" in failure.remark
    assert failure.remark.isprintable()
    # Consumers send back what was stored before.
    for _ in range(3):
        (run,), failures = scanner.scan(body("%RETRY%orders%g"))
        assert (run.count, failures) == (2 * before + 1, [])


def test_ids_of_other_scripts_are_accepted() -> None:
    messages = [replace(message(number), message_id=f"主题-ü-🙂{number} /") for number in range(9)]
    ((run,), failures) = BatchScanner().scan(bytes(body_of(*messages)))
    assert (run.count, failures) == (9, [])


@pytest.mark.parametrize("value", [b"9" * 19, b"", b"-1", "٣".encode()])
def test_a_create_time_that_is_no_long_of_java_is_refused(value: bytes) -> None:
    bad = entry("orders", b"m1", (b"qmq_createTime", value))
    for body in (bad, entry("orders", b"m1", CREATED_TIME, (b"qmq_createTime", value))):
        runs, (failure,) = BatchScanner().scan(body)
        assert not runs
        assert "qmq_createTime" in failure.remark


def test_a_second_create_time_is_refused_also_where_others_have_a_key_of_its_length() -> None:
    def one(key: bytes) -> bytes:
        return entry("orders", b"m1", CREATED_TIME, (key, b"0000000000soon"))

    runs, (failure,) = BatchScanner().scan(b"".join([one(b"x" * 14)] * 5 + [one(b"qmq_createTime"), one(b"x" * 14)]))
    assert sum(run.count for run in runs) == 6
    assert "twice" in failure.remark
