"""The metadata's one home. Written by `metaserver.services` only."""

from metaserver.models.audit import AuditEntry
from metaserver.models.broker_groups import BrokerGroup, Node
from metaserver.models.clients import ClientSeen
from metaserver.models.ledger import Ledger, MetadataChange
from metaserver.models.metaservers import MetaserverBeat
from metaserver.models.subjects import ConsumerGroup, Subject, SubjectRoute
from metaserver.models.teams import Team

__all__ = [
    "AuditEntry",
    "BrokerGroup",
    "ClientSeen",
    "ConsumerGroup",
    "Ledger",
    "MetadataChange",
    "MetaserverBeat",
    "Node",
    "Subject",
    "SubjectRoute",
    "Team",
]
