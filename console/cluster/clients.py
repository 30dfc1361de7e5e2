"""Producers and consumers: what brokers know of their connections, joined with what clients register.

A broker knows connections, what is sent and pulled on them, and how fast; a registration has the application of a consumer, and
library and language. A process has a connection to each broker group: together they are one row.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from django.utils import timezone

from console.cluster.asking import brokers
from metaserver import queries
from metaserver.domain import ClientSeen
from qmq.protocol.codes import ClientType

REGISTERED_SECONDS = 900
"""A client that did not register for so long has ended: registrations are stored every five minutes."""
REGISTRATIONS_MAX = 20_000
"""Registrations that are read for one answer, the newest."""
SENDERS_MAX = 500
"""Clients of a broker group among which the senders of the picture of the flow are, those with the highest rates."""
DIFFERING_MAX = 20
"""Consumer groups that an answer names because their members subscribe differently."""

Key = tuple[str, ...]


class ClientRole(StrEnum):
    """What a client does on a subject."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    DELAYED_PRODUCER = "delayed_producer"
    """Sends delayed messages, to delay nodes."""
    DELAY_NODE = "delay_node"
    """Sends delayed messages that are due."""


class Difference(StrEnum):
    """What the members of a consumer group subscribe differently."""

    TAGS = "tags"
    BROADCAST = "broadcast"
    SUBJECTS = "subjects"
    """Members of one application consume subjects in common, and others not."""


@dataclass(slots=True)
class ClientRow:
    """A client of a subject: a producer by application and host, a consumer by its group and ID."""

    role: ClientRole
    subject: str
    app: str
    """"" if it is not known."""
    host: str
    group: str = ""
    client_id: str = ""
    """Of a consumer."""
    addresses: list[str] = field(default_factory=list)
    """Of its connections."""
    broker_groups: list[str] = field(default_factory=list)
    rate: float | None = None
    """Messages per second sent or delivered, on the broker groups that answered; None: not measured."""
    missing: list[str] = field(default_factory=list)
    """Broker groups of its subject that did not answer: the rate is a lower bound."""
    agents: list[str] = field(default_factory=list)
    """Libraries and languages that registered."""
    protocol: int | None = None
    tags: list[str] | None = None
    all_tags: bool | None = None
    broadcast: bool | None = None
    registered_at: datetime | None = None
    differs: list[str] = field(default_factory=list)
    """A `Difference` each."""

    @property
    def key(self) -> Key:
        """What makes it one row."""
        who = (self.group, self.client_id) if self.role == ClientRole.CONSUMER else (self.app, self.host)
        return (self.role, self.subject, *who)


@dataclass(frozen=True, slots=True)
class DifferingGroup:
    """A consumer group whose members subscribe differently."""

    subject: str
    group: str
    differs: Sequence[str]


@dataclass(frozen=True, slots=True)
class Clients:
    """The clients of the broker groups that answered."""

    rows: Sequence[ClientRow]
    unreachable: Mapping[str, str]
    left_out: int
    """Clients with low rates that brokers did not list."""
    differing: Sequence[DifferingGroup]
    """At most DIFFERING_MAX."""


def clients(subject: str | None = None) -> Clients:
    """The clients of all subjects, or of one.

    Raises:
        CallTimeout: no node answered in time.
    """
    names = None if subject is None else queries.broker_groups_of(subject) or []
    answers = brokers(names).ask(lambda _, node: node.clients(subject=subject))
    rows = _connected(answers.values)
    _join(rows, _registered(subject))
    found = list(rows.values())
    _mark_missing(found, answers.unreachable)
    left_out = sum(page["left_out"] + bool(page["is_full"]) for page in answers.values.values())
    for row in found:
        is_measured = not (left_out or row.missing or row.addresses or row.role == ClientRole.DELAYED_PRODUCER)
        if row.rate is None and is_measured:
            # All brokers answered, and it is connected to none.
            row.rate = 0.0
    return Clients(found, answers.unreachable, left_out, mark_differences(found))


@dataclass(frozen=True, slots=True)
class Sender:
    """What an application, or the delay nodes, send to a subject, on the broker groups that answered."""

    app: str
    is_delay_node: bool
    subject: str
    rate: float


@dataclass(frozen=True, slots=True)
class Senders:
    """The busiest senders of each broker group that answered."""

    senders: Sequence[Sender]
    unreachable: Mapping[str, str]


def senders() -> Senders:
    """The busiest connections of all broker groups that send.

    Raises:
        CallTimeout: no node answered in time.
    """
    answers = brokers().ask(lambda _, node: node.clients(limit=SENDERS_MAX))
    found = [
        Sender(row.app, row.role == ClientRole.DELAY_NODE, row.subject, row.rate or 0.0)
        for row in _connected(answers.values).values()
        if row.role in (ClientRole.PRODUCER, ClientRole.DELAY_NODE)
    ]
    return Senders(found, answers.unreachable)


def _connected(pages: Mapping[str, Mapping[str, Any]]) -> dict[Key, ClientRow]:
    """The clients that brokers list."""
    found: dict[Key, ClientRow] = {}
    for broker_group, page in pages.items():
        for item in page["clients"]:
            role = ClientRole.DELAY_NODE if item.get("is_delayed") else ClientRole(item["role"])
            app = "" if role == ClientRole.DELAY_NODE else item.get("app", "")
            host = item["address"].rpartition(":")[0]
            row = ClientRow(role, item["subject"], app, host, item.get("group", ""), item.get("client_id", ""))
            row = found.setdefault(row.key, row)
            row.addresses.append(item["address"])
            if broker_group not in row.broker_groups:
                row.broker_groups.append(broker_group)
            if item["rate"] is not None:
                row.rate = (row.rate or 0.0) + item["rate"]
            row.protocol = max(row.protocol or 0, item["protocol"])
            if role == ClientRole.CONSUMER:
                row.tags, row.all_tags, row.broadcast = item["tags"], item["all_tags"], item["broadcast"]
    return found


def _registered(subject: str | None) -> list[tuple[ClientSeen, datetime]]:
    """The clients that registered recently, with the time."""
    since = timezone.now() - timedelta(seconds=REGISTERED_SECONDS)
    rows = queries.clients().filter(last_seen_at__gt=since).exclude(client_type=ClientType.OTHER)
    if subject is not None:
        rows = rows.filter(subject=subject)
    values = rows.order_by("-last_seen_at").values_list(*ClientSeen._fields, "last_seen_at")[:REGISTRATIONS_MAX]
    return [(ClientSeen(*value[:-1]), value[-1]) for value in values]


_ROLES = {
    ClientType.PRODUCER: ClientRole.PRODUCER,
    ClientType.CONSUMER: ClientRole.CONSUMER,
    ClientType.DELAY_PRODUCER: ClientRole.DELAYED_PRODUCER,
}


def _join(rows: dict[Key, ClientRow], registered: Iterable[tuple[ClientSeen, datetime]]) -> None:
    """Add to connected clients what they registered, and the clients that registered and are not connected."""
    producers: dict[tuple[str, str], list[ClientRow]] = defaultdict(list)
    for row in rows.values():
        if row.role == ClientRole.PRODUCER:
            producers[row.subject, row.app].append(row)
    for client, at in registered:
        role = _ROLES[ClientType(client.client_type)]
        host = client.client_id.partition("@@")[0]
        row = ClientRow(role, client.subject, client.app, host)
        if role == ClientRole.CONSUMER:
            row.group, row.client_id = client.group, client.client_id
        same = producers[client.subject, client.app] if role == ClientRole.PRODUCER else []
        for one in same or [rows.setdefault(row.key, row)]:
            one.app = one.app or client.app
            one.registered_at = max(one.registered_at or at, at)
            if client.agent and client.agent not in one.agents:
                one.agents.append(client.agent)


def _mark_missing(rows: Iterable[ClientRow], unreachable: Mapping[str, str]) -> None:
    """Note at each client the broker groups of its subject that did not answer."""
    if not unreachable:
        return
    concerned = defaultdict(list)
    for row in rows:
        concerned[row.subject].append(row)
    for subject, groups in queries.broker_groups_by_subject(concerned).items():
        missing = sorted(set(groups) & set(unreachable))
        for row in concerned[subject]:
            row.missing = missing


def mark_differences(rows: Iterable[ClientRow]) -> list[DifferingGroup]:
    """Mark the consumers whose groups subscribe differently; the groups by name, at most DIFFERING_MAX. Pure.

    Members that are not connected are left out: what they pull is not known.
    """
    members: dict[tuple[str, str], list[ClientRow]] = defaultdict(list)
    subjects: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for row in rows:
        if row.role == ClientRole.CONSUMER and row.addresses:
            members[row.subject, row.group].append(row)
            subjects[row.group, row.app][row.client_id].add(row.subject)
    found = []
    for (subject, group), same in sorted(members.items()):
        differs = []
        if len({(tuple(row.tags or ()), row.all_tags) for row in same}) > 1:
            differs.append(Difference.TAGS)
        if len({row.broadcast for row in same}) > 1:
            differs.append(Difference.BROADCAST)
        for row in same:
            row.differs = [str(item) for item in differs]
        for app in {row.app for row in same}:
            sets = [names for names in subjects[group, app].values() if subject in names]
            if any(names != sets[0] for names in sets):
                differs.append(Difference.SUBJECTS)
                for row in same:
                    if row.app == app:
                        row.differs.append(str(Difference.SUBJECTS))
        if differs:
            found.append(DifferingGroup(subject, group, [item.value for item in dict.fromkeys(differs)]))
    return found[:DIFFERING_MAX]
