"""What the operators' pages see of a broker."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from broker_node.delivery.delivery import Delivery
from broker_node.handlers import Handlers
from broker_node.storage.disk_work import completed
from broker_node.storage.oldest_sequence import adjust_begin
from broker_node.storage.rates import RateTable
from broker_node.storage.store import MessageStore
from broker_node.storage.subject import Group, Subject
from broker_node.storage.subject_changes import SubjectChanges
from broker_node.storage.subject_table import LimitReached
from qmq.errors import IllegalName, LocalProtocolError, LogError
from qmq_node.admin.server import BadRequest
from qmq_node.filters import TooCostly
from qmq_node.node.node import Node


@contextmanager
def reported() -> Iterator[None]:
    """Converts errors of the broker to BadRequest."""
    try:
        yield
    except (IllegalName, LocalProtocolError, LimitReached, LogError, TooCostly) as error:
        status = 409 if isinstance(error, LimitReached) else 500 if isinstance(error, LogError) else 400
        raise BadRequest(status, error.code, str(error)) from error


@dataclass(frozen=True, slots=True)
class NodeView:
    """Access to the state of a broker. Changes are actions of the store; pages change nothing else."""

    node: Node
    store: MessageStore
    handlers: Handlers
    delivery: Delivery
    rates: RateTable
    changes: SubjectChanges
    boot_id: str
    """Identifies this process in cursors of changes."""
    lease_seconds: float
    """A consumer that was last seen longer ago is offline."""
    describe: Callable[[], dict[str, Any]]
    """The node's own fields of /stats."""

    async def subject(self, name: str) -> Subject:
        """Returns a subject after an update of its begin. Raises BadRequest 404."""
        return await completed(lambda: self.subject_now(name))

    def subject_now(self, name: str) -> Subject:
        """As `subject`, without waiting. Raises DiskWork."""
        subject = self.store.subjects.get(name)
        if subject is None:
            raise BadRequest(404, "subject.unknown", f"this node has no subject {name!r}")
        adjust_begin(self.store, subject)
        return subject

    def group(self, subject: Subject, name: str) -> Group:
        """Returns a group of a subject. Raises BadRequest 404."""
        group = subject.groups.get(name)
        if group is None:
            raise BadRequest(404, "group.unknown", f"this node has no group {name!r} of subject {subject.name!r}")
        return group

    def members_online(self, group: Group) -> int:
        """Returns how many consumers of a group were seen within the lease."""
        now = self.node.clock.monotonic()
        return sum(now - consumer.seen_at < self.lease_seconds for consumer in group.progress.consumers.values())
