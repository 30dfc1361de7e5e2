"""Commands that read in bulk: their bytes, and what is refused."""

import pytest

from delay_node.found import WORDS
from qmq.errors import ProtocolError
from qmq.protocol import bulk_read as r
from qmq.protocol.codes import Command
from qmq.protocol.primitives import encode_strmap


def test_a_request_as_bytes() -> None:
    """The layout that other versions rely on: a map of strings, nothing behind it."""
    body = r.ReadRequest("orders", 7, 9, group="billing", token="secret", bytes_max=64).encode()
    assert body == (
        b"\x00\x06\x00\x05token\x00\x06secret\x00\x07subject\x00\x06orders\x00\x05group\x00\x07billing"
        b"\x00\x05begin\x00\x017\x00\x03end\x00\x019\x00\tbytes_max\x00\x0264"
    )
    assert r.ReadRequest.decode(b"\x00\x00") == r.ReadRequest("", 0, 0)


def test_an_answer_as_bytes() -> None:
    body = r.EntriesPage(5, 9, 7, b"x" * 32).encode()
    assert body == b"\x00\x03\x00\x05begin\x00\x015\x00\x03end\x00\x019\x00\x05first\x00\x017\x00\x00\x00 " + b"x" * 32


def test_half_entries_are_refused() -> None:
    with pytest.raises(ProtocolError, match="not a multiple of 48"):
        r.ProgressPage.decode(r.ProgressPage(0, 1, 0, b"x" * 47).encode())
    with pytest.raises(ProtocolError, match="not a multiple of 32"):
        r.MessagesPage.decode(r.MessagesPage(0, 1, 0, b"x" * 31, b"").encode())
    with pytest.raises(ProtocolError, match="1 schedule entries with 2 states"):
        r.SchedulePage.decode(r.SchedulePage(1, 0, b"x" * 32, b"\0\0").encode())


def test_the_commands_have_their_numbers() -> None:
    assert [Command(code).name for code in range(209, 216)] == [
        "LIST_RANGES", "READ_INDEX", "READ_PROGRESS", "READ_MESSAGES", "LIST_HOURS", "READ_SCHEDULE", "LIST_NODES",
    ]  # fmt: skip


def test_state_bytes_mean_what_the_delay_node_means() -> None:
    assert {int(state): word for state, word in WORDS.items()} == r.SCHEDULE_STATES


def test_ranges_of_a_node_that_reports_no_log_id_are_read() -> None:
    head = encode_strmap({"broker_group": "g1", "node_id": "n", "read_at_ms": "5", "next_after": ""})
    page = r.RangesPage.decode(head + bytes(4))
    assert (page.broker_group, page.read_at_ms, page.log_id) == ("g1", 5, "")
