"""A broker group with members as its nodes reported them, and its master's admin page."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from asgiref.sync import sync_to_async

from metaserver import domain
from metaserver.models import Node
from metaserver.reports import StoredReport
from metaserver.services import broker_groups
from qmq.errors import QmqError
from qmq_node.replication.rules.membership import Membership

ROW = Membership("g1", ("a", "b"), "a", ("a", "b"), 3, 9, "00000000-0000-4000-8000-000000000003", copies=2)
REPORT = StoredReport("in_sync", 3, 3, 5000, 5000, 10, newest_place=(3, 9))
MASTER = replace(REPORT, role="master", log_end=6000, slaves={"b": 5900})


def report(node_id: str, found: StoredReport, *, group: str = "g1", rack: str = "r1", **values: Any) -> None:
    """Store the heartbeat of a node."""
    node = domain.Node(
        node_id, group, 0, f"{node_id}:1", f"{node_id}:2", "1", found.log_end, log_epoch=3, sync_address=f"{node_id}:3",
        rack=rack, report=found.encoded(),
    )  # fmt: skip
    broker_groups.save_node(node)
    Node.objects.filter(node_id=node_id).update(**values)


class FakeMaster:
    """The admin page of a master; `answer` is what it does."""

    def __init__(self) -> None:
        self.answer: dict[str, Any] | QmqError = {"from": "a", "to": "b", "epoch": 4, "held_seconds": 0.25}
        self.requests: list[tuple[str, str]] = []
        self.before: Callable[[], object] = lambda: None
        """Called before it answers."""

    def at(self, address: str, seconds: float) -> "FakeMaster":
        self.address = address
        return self

    async def switch_over(self, to: str) -> dict[str, Any]:
        self.requests.append((self.address, to))
        await sync_to_async(self.before)()
        if isinstance(self.answer, QmqError):
            raise self.answer
        return self.answer
