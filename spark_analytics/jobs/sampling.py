"""What is asked of nodes once at each ingestion: their disks, and what they hold."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime

from qmq.errors import QmqError
from qmq.protocol.bulk_read import NodeLine
from spark_analytics.schemas import SEQUENCES_PER_LOG
from spark_analytics.source.listing import Listing, list_ranges
from spark_analytics.source.planning import masters
from spark_analytics.source.selection import Selection

BROKER = "broker"
ATTEMPTS_MAX = 3
"""How often a node is asked before it is missing."""
REQUESTS_AT_ONCE = 8


@dataclass(slots=True)
class Brokers:
    """The broker groups there are."""

    names: frozenset[str] = frozenset()
    listings: list[Listing] = field(default_factory=list)
    """What those hold that can be read."""
    missing: dict[str, str] = field(default_factory=dict)
    """Broker group that can't be read -> why."""

    @property
    def logs(self) -> dict[str, str]:
        """Broker group -> the ID of its log."""
        return {found.node.broker_group: found.log_id for found in self.listings}


def look(nodes: Sequence[NodeLine], token: str) -> Brokers:
    """Ask each broker group what it holds; one that does not answer is missing."""
    found_nodes = masters(nodes, BROKER, Selection())
    found = Brokers(frozenset(node.broker_group for node in found_nodes))

    def ask(node: NodeLine) -> Listing | str:
        try:
            return list_ranges(node, token, attempts_max=ATTEMPTS_MAX)
        except QmqError as error:
            return f"{node.address}: {error}"

    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        for node, answer in zip(found_nodes, pool.map(ask, found_nodes), strict=True):
            if isinstance(answer, str):
                found.missing[node.broker_group] = answer
            else:
                found.listings.append(answer)
    return found


def sampled_ranges(
    brokers: Brokers, known: Mapping[str, Sequence[str]], at: datetime, before: Mapping[tuple[str, str], int]
) -> Iterator[tuple[datetime, str, str, int, int]]:
    """Rows of table `ranges` of the lake: what each subject keeps on each broker group, of those from which something was removed
    since it was sampled.

    Args:
        known: broker group -> the IDs of its logs, the oldest first.
        before: (broker group, subject) -> where what it keeps began when it was sampled last; of others all is a row.
    """
    for found in brokers.listings:
        group = found.node.broker_group
        shift = known[group].index(found.log_id) * SEQUENCES_PER_LOG if found.log_id else 0
        # A subject with many groups is there several times.
        for name, one in {one.name: one for one in reversed(found.subjects)}.items():
            if before.get((group, name)) != one.begin + shift:
                yield at, group, name, one.begin + shift, one.end + shift
