"""Pages of nodes as the collector reads them."""

from typing import Any

from hypothesis import strategies as st

from console.cluster.measured import Measured
from console.cluster.places import NodePlace
from console.snapshot.state import (
    empty,
    group_key,
)

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


def consumer(consumer_id: str, *, online: bool = True, duplicate: bool = False) -> dict[str, Any]:
    return {"consumer_id": consumer_id, "online": online, "duplicate": duplicate}


def group_stats(name: str = "g", **values: Any) -> dict[str, Any]:
    base = {
        "group": name, "broadcast": False, "backlog": 0, "in_flight": 0, "lag": 0, "time_lag_seconds": 0.0,
        "pull_rate": 0.0, "ack_rate": 0.0, "retried": 0, "redelivered": 0, "withheld": 0,
        "skipped_by_retention": 0, "paused": False,
        "consumers": [consumer("c1"), consumer("c2", online=False)],
    }  # fmt: skip
    return {**base, "steady_ack_rate": values.get("ack_rate", 0.0), **values}


def subject_stats(name: str, begin: int, end: int, *groups: dict[str, Any], **values: Any) -> dict[str, Any]:
    base = {
        "subject": name, "begin_sequence": begin, "end_sequence": end, "send_rate": 1.0, "send_bytes_rate": 100.0, "withheld": 0,
        "steady_send_rate": values.get("send_rate", 1.0),
    }  # fmt: skip
    return {**base, "groups": list(groups), **values}


def stats(*found: dict[str, Any], **values: Any) -> Measured[dict[str, Any]]:
    head = {
        "state": "read_write", "state_reason": None, "state_why": None, "version": "1", "disk_free_bytes": 5, "connections": 1,
        "uptime_seconds": 7.3, "log": {"begin": 0, "end": 9, "synced_end": 9, "damaged": []},
    }  # fmt: skip
    return Measured({**head, "subjects": list(found), **values}, None, NOW_MS)


AWAY: Measured[dict[str, Any]] = Measured(None, "connection refused", NOW_MS)
