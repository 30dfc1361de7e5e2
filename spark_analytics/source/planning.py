"""What there is to read: nodes are asked what they hold, in the driver. A node that can't be reached fails the read by name."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from qmq.errors import QmqError
from qmq.protocol.bulk_read import GroupRange, NodeLine, SubjectRange
from qmq.protocol.names import split_subject
from spark_analytics.source.listing import Listing, list_ranges
from spark_analytics.source.node_reader import NodeReader, find_nodes
from spark_analytics.source.offsets import Held, Key, Observed
from spark_analytics.source.options import ReadOptions
from spark_analytics.source.partitions import Range
from spark_analytics.source.selection import HIGHEST, LOWEST, Selection, Span

Found = TypeVar("Found")

CONCURRENT_NODES_MAX = 8
"""Nodes that are queried at the same time."""
HOUR_US = 3_600_000_000
FAILURE_KINDS = {"retries": "retry", "dead_letters": "dead"}
"""Which subjects a table of failures reads, as `split_subject` names them."""
_OFFLINE = "offline"
_ROLES = ("master", "delay")


class NodeUnreadable(QmqError):
    """A node could not be read; the message names it."""

    code = "analytics.node_unreadable"


def named(node: NodeLine | Range, error: QmqError) -> NodeUnreadable:
    """An error with the node it came from."""
    return NodeUnreadable(f"broker group {node.broker_group} ({node.address}): {error}", code=error.code)


def masters(nodes: Iterable[NodeLine], kind: str, selection: Selection) -> list[NodeLine]:
    """For each broker group of a kind the node to read: its master, where several are known the one that serves."""
    of_group: dict[str, list[NodeLine]] = defaultdict(list)
    for node in nodes:
        if node.kind == kind and node.broker_group in selection.broker_groups:
            of_group[node.broker_group].append(node)
    return [
        max(found, key=lambda node: (node.state != _OFFLINE, node.role in _ROLES, node.log_end))
        for _, found in sorted(of_group.items())
    ]


def plan_ranges(options: ReadOptions) -> list[Range]:
    """Everything to read of a table that nodes hold.

    Raises:
        NodeUnreadable: a node can't be reached, or refuses.
        QmqError: the metaserver can't be.
    """
    selection = options.selection
    nodes = find_nodes(options.metaserver, token=options.token).nodes
    if options.table == "delayed":
        return _each(masters(nodes, "delay", selection), lambda node: _hours(node, options, selection))
    return _each(masters(nodes, "broker", selection), lambda node: _ranges(node, options, selection))


def observe(options: ReadOptions, listings: Sequence[Listing] | None = None) -> tuple[Observed, dict[Key, Range]]:
    """What all broker groups hold now, for a stream, and where each range is.

    A subject whose groups fill several pages is there once: its ranges have one key.

    Args:
        listings: what nodes said; None: they are asked.

    Raises: as `plan_ranges`.
    """
    selection = options.selection
    from_ms, _ = selection.time_bounds_ms()
    if listings is None:
        nodes = masters(find_nodes(options.metaserver, token=options.token).nodes, "broker", selection)
        listings = _each(nodes, lambda node: [list_ranges(node, options.token, from_ms=from_ms)])
    held: dict[Key, Held] = {}
    places: dict[Key, Range] = {}
    read_at_ms: dict[str, int] = {}
    logs: dict[str, int] = {}
    for listing in listings:
        node = listing.node
        if node.broker_group not in selection.broker_groups:
            continue
        read_at_ms[node.broker_group] = listing.read_at_ms
        logs.update(_log_number(node, listing.log_id, options))
        for subject in listing.subjects:
            for one, of_time in _of_subject(node, subject, options.table, selection):
                key = (one.broker_group, one.subject, one.group)
                held[key] = Held(one.begin, one.end, of_time.begin, one.began_at_ms, one.origin)
                places[key] = one

    def is_wanted(key: Key) -> bool:
        return key[1] in selection.subjects and key[2] in selection.groups

    return Observed(held, read_at_ms, is_wanted, logs), places


def _log_number(node: NodeLine, log_id: str, options: ReadOptions) -> dict[str, int]:
    """The number of a broker group's log; empty where options or node name none.

    Raises:
        NodeUnreadable: the options do not know this one: the group began again after they were made.
    """
    known = options.logs.get(node.broker_group)
    if known is None or not log_id:
        return {}
    if log_id not in known:
        raise named(
            node, QmqError("the broker group has just begun again with an empty log", code="analytics.log_unknown")
        )
    return {node.broker_group: known.index(log_id)}


def entry_at(options: ReadOptions, one: Range, at_ms: int) -> int:
    """The first entry of a group's history that is not before a wall time; its end when there is none.

    Raises:
        NodeUnreadable: the node can't be reached, or has no such group.
    """
    try:
        with NodeReader(one.address, token=options.token) as reader:
            for group in reader.groups(one.subject, from_ms=at_ms):
                if group.name == one.group:
                    return group.range_begin
    except QmqError as error:
        raise named(one, error) from error
    raise NodeUnreadable(
        f"broker group {one.broker_group} does not have group {one.group} of subject {one.subject} anymore"
    )


def _ranges(node: NodeLine, options: ReadOptions, selection: Selection) -> list[Range]:
    from_ms, to_ms = selection.time_bounds_ms()
    found: list[Range] = []
    with NodeReader(node.address, token=options.token) as reader:
        for subject in reader.ranges(from_ms, to_ms):
            for one, of_time in _of_subject(node, subject, options.table, selection):
                cut = Span(one.begin, one.end) & of_time
                if not cut.is_empty:
                    found.append(one._replace(begin=cut.begin, end=cut.end))
    return found


def _of_subject(
    node: NodeLine, subject: SubjectRange, table: str, selection: Selection
) -> Iterator[tuple[Range, Span]]:
    """The ranges that a table reads of a subject, whole, and the part of each that lies in the time requested."""
    of_time = Span(subject.range_begin, subject.range_end)
    if table in FAILURE_KINDS:
        name = split_subject(subject.name)
        if name.kind == FAILURE_KINDS[table] and name.subject in selection.subjects and name.group in selection.groups:
            yield _stored(node, subject), of_time
    elif subject.name in selection.subjects:
        if table != "progress":
            yield _stored(node, subject), of_time
            return
        for group in subject.groups:
            if group.name in selection.groups:
                yield _of_group(node, subject, group), Span(group.range_begin, group.range_end)


def _stored(node: NodeLine, subject: SubjectRange) -> Range:
    return Range(node.broker_group, node.address, subject.name, subject.begin, subject.end, origin=subject.origin)


def _of_group(node: NodeLine, subject: SubjectRange, group: GroupRange) -> Range:
    return Range(
        node.broker_group,
        node.address,
        subject.name,
        group.begin,
        group.end,
        group.name,
        group.broadcast,
        group.consumers,
        began_at_ms=group.began_at_ms,
    )


def _hours(node: NodeLine, options: ReadOptions, selection: Selection) -> list[Range]:
    """Hours of due time in the time requested."""
    times = selection.times
    first = LOWEST if times.begin == LOWEST else times.begin // HOUR_US
    last = HIGHEST if times.end == HIGHEST else -(-times.end // HOUR_US)
    found: list[Range] = []
    with NodeReader(node.address, token=options.token) as reader:
        hours, _ = reader.hours()
    for hour in hours:
        if first <= hour.hour < last and hour.count:
            found.append(Range(node.broker_group, node.address, "", 0, hour.count, hour=hour.hour))
    return found


def _each(nodes: list[NodeLine], ask: Callable[[NodeLine], list[Found]]) -> list[Found]:
    """The answers of all nodes, in their order."""

    def work(node: NodeLine) -> list[Found]:
        try:
            return ask(node)
        except QmqError as error:
            raise named(node, error) from error

    with ThreadPoolExecutor(CONCURRENT_NODES_MAX) as pool:
        return [one for found in pool.map(work, nodes) for one in found]
