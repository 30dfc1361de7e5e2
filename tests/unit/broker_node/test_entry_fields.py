"""Index entries are encoded and decoded, and messages cut out of what was read, many at a time."""

from itertools import accumulate

import pytest

from broker_node.storage.consume_log import (
    BLOCK_ENTRIES,
    CHECKED_FIELDS,
    ENCODED_TOGETHER_MIN,
    ENTRY,
    ENTRY_BYTES,
    ENTRY_HEAD_BYTES,
    PLACE_FIELDS,
    _block,
    encode_run,
    entry_fields,
)
from broker_node.storage.message_log import (
    COPIED_BYTES_MAX,
    COPIED_SPAN_BYTES_MAX,
    CUT_TOGETHER_MIN,
    _cut,
    _equal,
)
from qmq.checksum import crc32
from qmq.protocol.scan import CRC_BYTES, Run


@pytest.mark.parametrize("count", [0, 1, BLOCK_ENTRIES - 1, BLOCK_ENTRIES, BLOCK_ENTRIES + 1, 3 * BLOCK_ENTRIES + 7])
def test_any_number_of_entries_is_decoded(count: int) -> None:
    entries = [ENTRY.pack(1000 * n, n, 1_700_000_000_000 + n, 1 << n % 64, n * 7) for n in range(count)]
    data = b"".join(entries)
    assert list(entry_fields(PLACE_FIELDS, data)) == [value for n in range(count) for value in (1000 * n, n)]
    heads = [value for n, entry in enumerate(entries) for value in (entry[:ENTRY_HEAD_BYTES], n * 7)]
    assert list(entry_fields(CHECKED_FIELDS, data)) == heads


def run_of(count: int, begin: int) -> Run:
    """Messages of different sizes and tags, of which the first CRC is at `begin` of what was received."""
    begins = list(accumulate((100 + n % 7 for n in range(count - 1)), initial=begin + CRC_BYTES))
    return Run(
        "subject",
        begin,
        begins[-1] + 92,
        begins,
        [n * 0x1234567 % 2**32 for n in range(count)],
        [1 << n % 64 for n in range(count)],
    )


@pytest.mark.parametrize("begin", [0, 700])
@pytest.mark.parametrize(
    "count",
    [1, ENCODED_TOGETHER_MIN - 1, ENCODED_TOGETHER_MIN, BLOCK_ENTRIES, BLOCK_ENTRIES + 1, 3 * BLOCK_ENTRIES + 7],
)
def test_entries_of_any_number_of_messages_are_encoded(count: int, begin: int) -> None:
    run = run_of(count, begin)
    expected = []
    for raw_begin, size, crc, tags in zip(run.raw_begins, run.raw_sizes(), run.crcs, run.tag_bits, strict=True):
        entry = ENTRY.pack(5_000 + raw_begin - begin, size, 1_700_000_000_000, tags, 0)
        expected.append(entry[:ENTRY_HEAD_BYTES] + crc32(entry[:ENTRY_HEAD_BYTES], crc).to_bytes(4, "big"))
    assert encode_run(run, 5_000, 1_700_000_000_000) == b"".join(expected)


def test_formats_are_kept_for_numbers_of_one_block_only() -> None:
    _block.cache_clear()
    for count in range(1, 3 * BLOCK_ENTRIES):
        entry_fields(PLACE_FIELDS, bytes(count * ENTRY_BYTES))
        entry_fields(CHECKED_FIELDS, bytes(count * ENTRY_BYTES))
        encode_run(run_of(count, 0), 0, 0)
    kept = _block.cache_info()
    assert kept.currsize == 2 * BLOCK_ENTRIES + 2 * (BLOCK_ENTRIES + 1 - ENCODED_TOGETHER_MIN)
    assert kept.maxsize == 4 * (BLOCK_ENTRIES + 1)


def cut(sizes: list[int], gap: int) -> list[bytes]:
    """Messages of these sizes, each a letter of its own, cut out of bytes in which gaps of dots lie between them."""
    raws = [bytes([65 + n % 26]) * size for n, size in enumerate(sizes)]
    offsets = tuple(1_000 + sum(sizes[:n]) + n * gap for n in range(len(sizes)))
    found = _cut(bytearray((b"." * gap).join(raws)), offsets, tuple(sizes))
    assert [bytes(raw) for raw in found] == raws
    return found


@pytest.mark.parametrize("gap", [0, 8])
@pytest.mark.parametrize(
    "sizes",
    [
        [100] * CUT_TOGETHER_MIN, [100] * (CUT_TOGETHER_MIN - 1), [100] * BLOCK_ENTRIES, [100] * (BLOCK_ENTRIES + 1), [7],
        [100] * 9 + [101], [101] + [100] * 9, [0] * 10, list(range(1, 40)), [COPIED_BYTES_MAX + 1] * 10,
        [COPIED_SPAN_BYTES_MAX // 8] * 9, list(range(COPIED_BYTES_MAX + 1, COPIED_BYTES_MAX + 20)),
    ],
)  # fmt: skip
def test_messages_are_cut_out_of_what_was_read_whatever_their_sizes(sizes: list[int], gap: int) -> None:
    cut(sizes, gap)


def test_large_messages_of_many_sizes_are_not_copied() -> None:
    large = cut(list(range(COPIED_BYTES_MAX + 1, COPIED_BYTES_MAX + 20)), 8)
    assert {type(raw) for raw in large} == {memoryview}
    assert {type(raw) for raw in cut([COPIED_SPAN_BYTES_MAX // 8] * 9, 8)} == {memoryview}
    assert {type(raw) for raw in cut([1024] * 50, 8)} == {type(raw) for raw in cut(list(range(1, 40)), 8)} == {bytes}


def test_layouts_that_are_kept_are_limited() -> None:
    _equal.cache_clear()
    for size in range(1, 2 * BLOCK_ENTRIES):
        cut([size] * CUT_TOGETHER_MIN, 8)
    assert _equal.cache_info().currsize == BLOCK_ENTRIES


def test_messages_of_two_batches_are_cut_where_they_lie() -> None:
    data = bytes(range(220))
    offsets = (*range(1_000, 1_100, 10), *range(1_120, 1_220, 10))
    assert _cut(data, offsets, (10,) * 20) == [data[at - 1_000 : at - 990] for at in offsets]


def test_entries_that_overlap_are_cut_as_they_say() -> None:
    offsets = tuple(range(1_000, 1_000 + 5 * 10, 5))
    assert _cut(bytes(range(60)), offsets, (10,) * 10) == [bytes(range(5 * n, 5 * n + 10)) for n in range(10)]
