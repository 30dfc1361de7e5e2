"""The metadata as frozen values: what the database holds, and what answers are built from. Pure."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from metaserver.choices import GroupKind, GroupState, OperatorState, Phase
from qmq_node.replication.rules.membership import Membership


@dataclass(frozen=True, slots=True)
class Node:
    """A node as it last registered. `log_epoch` and `log_end` are the highest ones that it reported together since an operator last
    accepted a log loss: the epoch of its newest commit, and its highest synced log offset."""

    node_id: str
    broker_group: str
    role: int
    address: str
    admin_address: str
    version: str
    log_end: int
    log_end_version: int = 0
    """How often an operator accepted a log loss. A log end of a newer version replaces any of an older one."""
    reported_at_ms: int = 0
    """When it last registered, by the wall clock of the metaserver that received it; 0: unknown."""
    log_epoch: int = 1
    sync_address: str = ""
    """Where slaves follow it if it is the master; "" if it has no replication."""
    rack: str = ""
    report: Mapping[str, Any] = field(default_factory=dict)
    """What it reported of its part in replication (`metaserver.reports`); empty if it has none."""

    @property
    def log_place(self) -> tuple[int, int]:
        """Where its log ended. A log that is truncated in a newer epoch continues at a higher place."""
        return self.log_epoch, self.log_end

    def with_newest_log_end(self, other: "Node") -> "Node":
        """This node with the log end that applies: of the newer version, of equal versions the higher place."""
        if (self.log_end_version, *self.log_place) >= (other.log_end_version, *other.log_place):
            return self
        return replace(self, log_end=other.log_end, log_epoch=other.log_epoch, log_end_version=other.log_end_version)


RENAMED = {"broker_group": "name", "version": "in_sync_version"}
"""Fields of a membership that have another name in the database and in the route file."""


def columns(membership: Membership) -> dict[str, Any]:
    """Return the fields of a membership by the names that they have in the database and in the route file."""
    return {RENAMED.get(field.name, field.name): getattr(membership, field.name) for field in fields(Membership)}


@dataclass(frozen=True, slots=True)
class BrokerGroup:
    """A broker group as it is stored: the source of truth for epoch, master and in-sync set."""

    kind: GroupKind
    state: GroupState
    membership: Membership
    """What is changed by compare-and-set. In the route file, `known_place` is the highest that the metaserver knew."""
    operator_state: OperatorState = OperatorState.NORMAL
    preferred: tuple[str, ...] = ()
    """Node ids: of members with equally long logs, the first is promoted."""
    created_at_us: int = field(default=0, compare=False)
    """When it was stored for the first time, in microseconds since 1970: a group that is removed and created again is another
    one. 0: it is not known yet."""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> "BrokerGroup":
        """Return the group of a record as `record` returns it, which may have lists instead of tuples.

        Raises TypeError for names that are missing or not known, ValueError for a value.
        """
        if wrong := record.keys() ^ set(cls.names()):
            raise TypeError(f"the record of a broker group lacks names, or has other ones: {', '.join(sorted(wrong))}")
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in record.items()
        }
        membership = {field.name: values.pop(RENAMED.get(field.name, field.name)) for field in fields(Membership)}
        kind, state = GroupKind(values.pop("kind")), GroupState(values.pop("state"))
        operator_state = OperatorState(values.pop("operator_state"))
        return cls(kind, state, Membership(**membership), operator_state, **values)

    @staticmethod
    def names() -> list[str]:
        """Return the names that a record has."""
        own = [field.name for field in fields(BrokerGroup) if field.name != "membership"]
        return [RENAMED.get(field.name, field.name) for field in fields(Membership)] + own

    def record(self) -> dict[str, Any]:
        """Return the fields of the group and of its membership side by side, as the database and the route file have them."""
        own = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "membership"}
        return columns(self.membership) | own

    @property
    def name(self) -> str:
        return self.membership.broker_group

    def with_membership(self, membership: Membership) -> "BrokerGroup":
        """Return this group with another membership, except for what operators decided and what is known of newer ones."""
        own = self.membership
        changed = replace(membership, in_sync_min=own.in_sync_min, copies=own.copies, known_place=own.known_place)
        return replace(self, membership=changed)

    def with_decisions_of(self, stored: "BrokerGroup") -> "BrokerGroup":
        """Return this group with what operators decided, which is always taken from the database."""
        decided = stored.membership
        return replace(
            self,
            membership=replace(self.membership, in_sync_min=decided.in_sync_min, copies=decided.copies),
            operator_state=stored.operator_state,
            preferred=stored.preferred,
            created_at_us=stored.created_at_us,
        )


@dataclass(frozen=True, slots=True)
class Route:
    """Which broker groups serve a subject."""

    subject: str
    broker_groups: tuple[str, ...]
    version: int
    created_at_ms: int
    phases: Mapping[str, Phase] = field(default_factory=dict)
    """Of those `broker_groups` that join or leave."""

    @property
    def writable(self) -> tuple[str, ...]:
        """The groups that producers are sent."""
        return tuple(name for name in self.broker_groups if self.phases.get(name) in (None, Phase.LEAVING))

    @property
    def staying(self) -> tuple[str, ...]:
        """The groups that serve the subject once every move is done."""
        return tuple(name for name in self.broker_groups if self.phases.get(name) in (None, Phase.JOINING))


class StoredConsumerGroup(NamedTuple):
    """A consumer group that consumers registered for, and the broker groups that serve its subject."""

    number: int
    """It rises with each consumer group that becomes known."""
    subject: str
    name: str
    broker_groups: tuple[str, ...]


class ClientSeen(NamedTuple):
    """A client that registered for a subject."""

    subject: str
    client_type: int
    group: str
    client_id: str
    app: str
    agent: str = ""


@dataclass(frozen=True, slots=True)
class SubjectRule:
    """The settings of a subject that nodes enforce; None: no limit, or the node's default."""

    is_archived: bool = False
    messages_per_second: int | None = None
    bytes_per_second: int | None = None
    retention_hours: float | None = None
    allowed_groups: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Metadata:
    """Everything that a metaserver loads at its start."""

    broker_groups: tuple[BrokerGroup, ...] = ()
    nodes: tuple[Node, ...] = ()
    routes: tuple[Route, ...] = ()
    rules: Mapping[str, SubjectRule] = field(default_factory=dict)
    """By subject; those without a rule are left out."""
    paused: frozenset[tuple[str, str, str]] = field(default_factory=frozenset)
    """(subject, consumer group, consumer id or "" for all) whose pulls are held."""
    has_peers: bool = False
    """In the route file: whether other metaservers ran when it was saved."""
    removed_folders: frozenset[tuple[str, str]] = field(default_factory=frozenset)
    """(broker group, incarnation) of the data folders of groups that were removed with the loss of their messages."""


class MetadataVersion(NamedTuple):
    """The number and time of the newest change of metadata. Equal versions, equal metadata.

    A restored database uses numbers again, with other times.
    """

    number: int
    at: datetime


NO_CHANGES = MetadataVersion(0, datetime.min.replace(tzinfo=UTC))
"""Of a database in which no change is listed."""


@dataclass(frozen=True, slots=True)
class MetadataChanges:
    """The subjects and broker groups that changed, and what is stored of them."""

    subjects: frozenset[str]
    deleted_subjects: frozenset[str]
    """Of `subjects`, those that are not stored any more."""
    broker_groups: frozenset[str]
    """One that is not in `stored` was deleted."""
    stored: Metadata


@dataclass(frozen=True, slots=True)
class StoredLease:
    """The last heartbeat of a broker group's master that some metaserver stored."""

    group: BrokerGroup
    node: Node
    stored_at_us: int
    """By the wall clock of the metaserver that stored it: only whether it changed means something."""
    is_own: bool
    """Whether this metaserver stored it."""


@dataclass(frozen=True, slots=True)
class Leases:
    """What metaservers stored of nodes and of themselves."""

    groups: tuple[StoredLease, ...] = ()
    peers: Mapping[str, int] = field(default_factory=dict)
    """By address, when each other metaserver last stored that it runs; as `stored_at_us`."""


def may_change(owner: str | None, teams: Set[str] | None) -> bool:
    """Return whether a member of these teams may change what a team owns.

    Args:
        owner: the owning team; None or "" for what no team owns, which every operator may change.
        teams: the teams of the caller; None for an administrator or a process of the system, which may change everything.
    """
    return teams is None or not owner or owner in teams
