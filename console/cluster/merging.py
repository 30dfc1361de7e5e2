"""Pages of messages of several broker groups as one, by the time they were stored. Pure."""

import heapq
from collections.abc import Mapping
from typing import Any

from console.cluster.asking import Answers

Row = dict[str, Any]
_BEFORE_ALL = -(1 << 62)


def merged(
    pages: Mapping[str, Row], limit: int, *, in_order: bool, newest: bool = False
) -> tuple[list[Row], dict[str, int]]:
    """The first `limit` messages of these pages by time stored, and each group's next sequence.

    Clocks step and stamps with them: in a group the order is always that of sequences, and a message counts as stored no earlier
    than those before it on the page (newest first: no later).

    Args:
        in_order: stop where a group's page ends before the group does, as its next message may belong before the others'.
        newest: the pages are in descending order, and so is the result, which is the other one reversed. The next sequence of a
            group is then the one above its next message, where the next page ends.
    """
    sign = -1 if newest else 1
    ranks = {group: sign * rank for rank, group in enumerate(sorted(pages))}
    taken: list[Row] = []
    used = dict.fromkeys(pages, 0)
    heap: list[tuple[int, int, str]] = []

    def push(group: str, at_least: int) -> bool:
        """False when the group's page is used up and the group is not."""
        messages = pages[group]["messages"]
        if used[group] < len(messages):
            stored_at_ms = messages[used[group]].get("stored_at_ms")
            key = at_least if stored_at_ms is None else max(at_least, sign * stored_at_ms)
            heapq.heappush(heap, (key, ranks[group], group))
            return True
        return pages[group]["next_sequence"] is None

    is_whole = True
    for group in pages:
        is_whole = push(group, _BEFORE_ALL) and is_whole
    while heap and len(taken) < limit and (is_whole or not in_order):
        key, _, group = heapq.heappop(heap)
        taken.append({**pages[group]["messages"][used[group]], "broker_group": group})
        used[group] += 1
        is_whole = push(group, key) and is_whole
    places = {}
    for group, page in pages.items():
        if used[group] < len(page["messages"]):
            places[group] = page["messages"][used[group]]["sequence"] + newest
        elif page["next_sequence"] is None:
            places[group] = page["begin_sequence"] if newest else page["end_sequence"]
        else:
            places[group] = page["next_sequence"]
    return taken, places


def next_places(
    answers: Answers[Row], places: Mapping[str, int], limit: int, *, in_order: bool, newest: bool = False
) -> tuple[list[Row], dict[str, int], bool]:
    """The messages of a page, where each broker group's next page begins, and whether there is one.

    A group that could not be reached keeps its place: it continues there once it answers again. One that never saw the subject
    holds none of its messages.
    """
    messages, reached = merged(answers.values, limit, in_order=in_order, newest=newest)
    kept = {group: place for group, place in places.items() if group in answers.unreachable}
    if newest:
        has_more = any(reached[group] > page["begin_sequence"] for group, page in answers.values.items())
    else:
        has_more = any(reached[group] < page["end_sequence"] for group, page in answers.values.items())
    return messages, kept | reached, has_more
