"""Pages of nodes as the collector reads them."""

from typing import Any

from hypothesis import strategies as st

from console.cluster.measured import Measured
from console.cluster.places import NodePlace
from console.snapshot.state import (
    empty,
    group_key,
)
from tests.support.console.node_stats import node_stats

NOW_MS = 1_700_000_000_000


values = st.none() | st.integers(-3, 3) | st.sampled_from(["", "a"])


entries = st.dictionaries(st.sampled_from("pqrs"), values, max_size=4)


subjects = st.sampled_from(["orders", "mail", "a"])


keys = st.one_of(subjects, st.tuples(subjects, st.sampled_from("gh")).map(lambda pair: group_key(*pair)))


states = st.fixed_dictionaries(
    {section: st.dictionaries(keys, entries, max_size=5) for section in ("subjects", "groups", "nodes")}
).map(lambda state: {**empty(), **state})


def place(group: str, node: str = "", *, is_master: bool = True, kind: str = "broker") -> NodePlace:
    return NodePlace(node or f"{group}-a", group, kind, is_master, "127.0.0.1:1", "127.0.0.1:2")


def stats(*found: dict[str, Any], **values: Any) -> Measured[dict[str, Any]]:
    return Measured(node_stats(*found, **values), None, NOW_MS)


AWAY: Measured[dict[str, Any]] = Measured(None, "connection refused", NOW_MS)
