"""Commands about delayed messages come back as they were sent; what they are not is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmq.errors import ProtocolError, QmqError
from qmq.protocol.delayed import (
    TARGETS_MAX,
    CancelDelayedRequest,
    CancelDelayedResponse,
    ChangeDelayedRequest,
    ChangeDelayedResponse,
    DelayedCalendar,
    DelayedCalendarRequest,
    DelayedChange,
    DelayedItem,
    DelayedPage,
    DelayedState,
    DelayedTarget,
    FindDelayedRequest,
    ListDelayedRequest,
    Operation,
    Outcome,
)
from qmq.protocol.messages import Message, encode_raw

whole = st.integers(-1, (1 << 62) - 1)
text = st.text("abcdé,.=:", max_size=12)
targets = st.builds(DelayedTarget, text, text, whole)
queries = st.builds(
    ListDelayedRequest, text, whole, whole, st.lists(st.sampled_from([str(s) for s in DelayedState])).map(tuple),
    st.dictionaries(text, text, max_size=3), st.integers(1, 500), text,
)  # fmt: skip


@given(targets, queries, st.lists(targets, max_size=4).map(tuple), st.sampled_from(Operation), whole, st.booleans())
def test_requests(
    target: DelayedTarget,
    query: ListDelayedRequest,
    some: tuple[DelayedTarget, ...],
    operation: Operation,
    number: int,
    dry_run: bool,
) -> None:
    for request in (
        FindDelayedRequest(target),
        query,
        ChangeDelayedRequest(operation, number, some),
        CancelDelayedRequest(query, dry_run),
        DelayedCalendarRequest(target.subject, number, number),
    ):
        assert type(request).decode(request.encode(9), 9) == request  # type: ignore[attr-defined]


@given(st.lists(st.tuples(text, st.sampled_from(Outcome), st.sampled_from(DelayedState), whole), max_size=4), whole)
def test_answers(some: list[tuple[str, Outcome, DelayedState, int]], number: int) -> None:
    changes = ChangeDelayedResponse(tuple(DelayedChange(*change) for change in some))
    assert ChangeDelayedResponse.decode(changes.encode(9), 9) == changes
    counted = CancelDelayedResponse(number, 3, 2, "5:1")
    assert CancelDelayedResponse.decode(counted.encode(9), 9) == counted
    calendar = DelayedCalendar(((number, 4), (7, 8)))
    assert DelayedCalendar.decode(calendar.encode(9), 9) == calendar
    message = Message("orders", "m1", {"a": "b"}, ("t",), 6, 1, 2)
    raw = encode_raw(message)
    page = DelayedPage((DelayedItem(message, number, DelayedState.PENDING, len(raw)),), "cursor")
    assert DelayedPage.decode(page.encode(9, [raw]), 9) == page


@given(st.binary(max_size=200))
def test_rubbish_is_refused_with_our_error(body: bytes) -> None:
    for kind in (
        FindDelayedRequest, ListDelayedRequest, ChangeDelayedRequest, CancelDelayedRequest, DelayedCalendarRequest,
        DelayedPage, ChangeDelayedResponse, DelayedCalendar,
    ):  # fmt: skip
        try:
            kind.decode(body, 9)  # type: ignore[attr-defined]
        except QmqError:
            continue


def test_a_change_of_too_many_is_refused() -> None:
    some = tuple(DelayedTarget(str(n)) for n in range(TARGETS_MAX + 1))
    with pytest.raises(ProtocolError, match="at most 1000"):
        ChangeDelayedRequest.decode(ChangeDelayedRequest(Operation.CANCEL, -1, some).encode(9), 9)
