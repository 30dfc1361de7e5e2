"""The metadata's one home. Written by `metaserver.services` only."""

from metaserver.models.audit import AuditEntry
from metaserver.models.broker_groups import BrokerGroup, Node
from metaserver.models.clients import ClientSeen
from metaserver.models.subjects import ConsumerGroup, Subject, SubjectRoute

__all__ = ["AuditEntry", "BrokerGroup", "ClientSeen", "ConsumerGroup", "Node", "Subject", "SubjectRoute"]
