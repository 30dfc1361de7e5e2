"""Commands that read in bulk come back as they were sent; what they are not is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delay_node.pending import WORDS
from qmq.errors import ProtocolError, QmqError
from qmq.protocol import reading as r
from qmq.protocol.codes import Command
from qmq.protocol.extensions import encode_fields

whole = st.integers(-1, (1 << 62) - 1)
text = st.text("abcdé,.=:%", max_size=12)
keys = st.integers(0, (1 << 64) - 1)


def blocks(entry_bytes: int) -> st.SearchStrategy[bytes]:
    """Some whole entries."""
    return st.integers(0, 3).flatmap(lambda n: st.binary(min_size=n * entry_bytes, max_size=n * entry_bytes))


groups = st.builds(
    r.GroupRange, text, st.booleans(), whole, whole, whole, whole, whole,
    st.lists(st.tuples(keys, text), max_size=3).map(tuple), whole,
)  # fmt: skip
subjects = st.builds(r.SubjectRange, text, whole, whole, whole, whole, st.lists(groups, max_size=3).map(tuple))
hours = st.builds(r.HourCounts, whole, whole, whole, whole, whole)
nodes = st.builds(r.NodeLine, text, text, text, text, text, text, text, whole, whole, whole)


@st.composite
def schedule_pages(draw: st.DrawFn) -> r.SchedulePage:
    entries = draw(blocks(32))
    count = len(entries) // 32
    with_data = draw(st.booleans())
    return r.SchedulePage(
        draw(whole),
        draw(whole),
        entries,
        bytes(count),
        bytes(4 * count if with_data else 0),
        b"raw" if with_data else b"",
    )


everything = st.one_of(
    st.builds(r.ListRangesRequest, text, text, whole, whole, whole),
    st.builds(r.RangesPage, text, text, whole, st.lists(subjects, max_size=3).map(tuple), text, text),
    st.builds(r.ReadRequest, text, whole, whole, text, text, whole),
    st.builds(r.EntriesPage, whole, whole, whole, blocks(32)),
    st.builds(r.MessagesPage, whole, whole, whole, blocks(32), st.binary(max_size=50)),
    st.builds(r.ListHoursRequest, text, whole, whole, whole),
    st.builds(
        r.HoursPage, text, text, st.lists(hours, max_size=3).map(tuple), whole, st.lists(text, max_size=3).map(tuple),
        whole, whole,
    ),
    st.builds(r.ReadScheduleRequest, whole, whole, whole, st.booleans(), text, whole),
    schedule_pages(),
    st.builds(r.ListNodesRequest, text),
    st.builds(r.NodesPage, whole, st.lists(nodes, max_size=3).map(tuple)),
)  # fmt: skip


@given(everything)
def test_what_is_encoded_comes_back(value: r.RangesPage) -> None:
    assert type(value).decode(value.encode(9), 9) == value


@given(everything, st.data())
def test_what_is_cut_short_is_refused_or_reads_as_less(value: r.RangesPage, data: st.DataObject) -> None:
    body = value.encode(9)
    cut = body[: data.draw(st.integers(0, len(body) - 1))]
    with pytest.raises(ProtocolError):
        type(value).decode(cut, 9)


@given(st.binary(max_size=200))
def test_rubbish_is_refused_with_our_error(body: bytes) -> None:
    for kind in (
        r.ListRangesRequest, r.RangesPage, r.ReadRequest, r.EntriesPage, r.MessagesPage, r.ListHoursRequest, r.HoursPage,
        r.ReadScheduleRequest, r.SchedulePage, r.ListNodesRequest, r.NodesPage,
    ):  # fmt: skip
        try:
            kind.decode(body, 9)  # type: ignore[attr-defined]
        except QmqError:
            continue


def test_a_request_as_bytes() -> None:
    """The layout that other versions rely on: a map of strings, nothing behind it."""
    body = r.ReadRequest("orders", 7, 9, "billing", "secret", 64).encode(9)
    assert body == (
        b"\x00\x06\x00\x05token\x00\x06secret\x00\x07subject\x00\x06orders\x00\x05group\x00\x07billing"
        b"\x00\x05begin\x00\x017\x00\x03end\x00\x019\x00\tbytes_max\x00\x0264"
    )
    assert r.ReadRequest.decode(b"\x00\x00", 9) == r.ReadRequest("", 0, 0)


def test_an_answer_as_bytes() -> None:
    body = r.EntriesPage(5, 9, 7, b"x" * 32).encode(9)
    assert body == b"\x00\x03\x00\x05begin\x00\x015\x00\x03end\x00\x019\x00\x05first\x00\x017\x00\x00\x00 " + b"x" * 32


def test_half_entries_are_refused() -> None:
    with pytest.raises(ProtocolError, match="not a multiple of 48"):
        r.EntriesPage.decode(r.EntriesPage(0, 1, 0, b"x" * 47).encode(9), 9, r.PROGRESS_ENTRY_BYTES)
    with pytest.raises(ProtocolError, match="not a multiple of 32"):
        r.MessagesPage.decode(r.MessagesPage(0, 1, 0, b"x" * 31, b"").encode(9), 9)
    with pytest.raises(ProtocolError, match="1 schedule entries with 2 states"):
        r.SchedulePage.decode(r.SchedulePage(1, 0, b"x" * 32, b"\0\0").encode(9), 9)


def test_the_commands_have_their_numbers() -> None:
    assert [Command(code).name for code in range(209, 216)] == [
        "LIST_RANGES", "READ_INDEX", "READ_PROGRESS", "READ_MESSAGES", "LIST_HOURS", "READ_SCHEDULE", "LIST_NODES",
    ]  # fmt: skip


def test_state_bytes_mean_what_the_delay_node_means() -> None:
    assert {int(state): word for state, word in WORDS.items()} == r.SCHEDULE_STATES


def test_ranges_of_a_node_that_reports_no_incarnation_are_read() -> None:
    head = encode_fields(broker_group="g1", node_id="n", read_at_ms=5, next_after="")
    page = r.RangesPage.decode(head + bytes(4), 9)
    assert (page.broker_group, page.read_at_ms, page.incarnation) == ("g1", 5, "")
