"""Fields of index entries are decoded in blocks."""

import pytest

from broker_node.consume_log import ENTRY, ENTRY_BYTES, ENTRY_HEAD_BYTES
from broker_node.message_log import _CHECKED, _PLACE, BLOCK_ENTRIES, _block, entry_fields


@pytest.mark.parametrize("count", [0, 1, BLOCK_ENTRIES - 1, BLOCK_ENTRIES, BLOCK_ENTRIES + 1, 3 * BLOCK_ENTRIES + 7])
def test_any_number_of_entries_is_decoded(count: int) -> None:
    entries = [ENTRY.pack(1000 * n, n, 1_700_000_000_000 + n, 1 << n % 64, n * 7) for n in range(count)]
    data = b"".join(entries)
    assert list(entry_fields(_PLACE, data)) == [value for n in range(count) for value in (1000 * n, n)]
    heads = [value for n, entry in enumerate(entries) for value in (entry[:ENTRY_HEAD_BYTES], n * 7)]
    assert list(entry_fields(_CHECKED, data)) == heads


def test_formats_are_kept_for_numbers_of_one_block_only() -> None:
    _block.cache_clear()
    for count in range(4 * BLOCK_ENTRIES):
        entry_fields(_PLACE, bytes(count * ENTRY_BYTES))
    assert _block.cache_info().currsize == BLOCK_ENTRIES + 1
