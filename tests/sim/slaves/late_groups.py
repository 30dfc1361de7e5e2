"""Consumer groups that an accepted loss takes: what is acknowledged afterwards has to reach them (docs/failover.md)."""

import math
from dataclasses import dataclass

from broker_node.broker import Broker
from metaserver.domain import ClientSeen, Route
from qmq.errors import QmqError
from qmq.net.caller import Caller
from qmq.protocol.codes import ClientType, Command, ResponseCode
from qmq.protocol.extensions import EnsureGroupRequest
from tests.sim.swarm.history import Broken, History
from tests.sim.swarm.workload import RAW_SECONDS, true_ms
from tests.sim.world.cluster import Cluster, Host


@dataclass(slots=True)
class LateGroup:
    """A consumer group whose consumers have registered and ended, so that all that is sent stays unread."""

    subject: str
    name: str
    known_ms: int = 0
    """When a loss was accepted that was after its registration; 0: none was."""


class LateGroups:
    """Makes such groups on the master of a broker group, and checks them at the end."""

    def __init__(self, cluster: Cluster, history: History, broker_group: str, subjects: list[str]) -> None:
        self._cluster = cluster
        self._history = history
        self._broker_group = broker_group
        self._subjects = subjects
        self._groups: list[LateGroup] = []

    async def make(self, master: Host) -> None:
        """Make a group for each subject, as far as the master answers."""
        database = self._cluster.database
        caller = Caller("127.0.0.1", master.port, connect_seconds=1.0)
        try:
            await caller.connect()
            for subject in self._subjects:
                name = f"late{len(self._groups)}"
                body = EnsureGroupRequest(subject, name, "latest", 0, True, False).encode()
                if (await caller.call(Command.ENSURE_GROUP, body, timeout_s=RAW_SECONDS)).code != ResponseCode.SUCCESS:
                    return
                # Clients of the bare protocol do not register.
                route = Route(subject, (self._broker_group,), 1, true_ms(self._cluster))
                database.stored.routes.setdefault(subject, route)
                database.stored.clients[ClientSeen(subject, ClientType.CONSUMER, name, "c", "")] = None
                database.changed(subject)
                self._groups.append(LateGroup(subject, name))
        except QmqError:
            pass
        finally:
            await caller.close()

    def loss_accepted(self) -> None:
        """An operator accepts a loss now."""
        for group in self._groups:
            group.known_ms = group.known_ms or true_ms(self._cluster)

    def check(self, master: Broker, sequences: dict[str, int]) -> None:
        """Check that the groups have before them what was acknowledged since the loss.

        Args:
            sequences: by message ID, where the master has them.
        """
        for group in (one for one in self._groups if one.known_ms):
            subject = master.store.subjects.get(group.subject)
            found = subject.groups.get(group.name) if subject is not None else None
            begin = found.progress.next_sequence if found is not None else math.inf
            for sent in self._history.sent.values():
                is_later = sent.subject == group.subject and sent.is_acked and sent.at_ms > group.known_ms
                if is_later and sequences.get(sent.message_id, begin) < begin:
                    text = f"{sent.message_id} does not reach {group.name}, which was known before the loss"
                    self._history.broken.append(Broken("known_groups", text))
