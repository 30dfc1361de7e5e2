"""Broker groups as they are stored, with other values."""

from typing import Any

from metaserver.domain import BrokerGroup


def changed(group: BrokerGroup, **values: Any) -> BrokerGroup:
    """The group with other values of its own or of its membership, by the names that these have in the database."""
    return BrokerGroup.of(group.record() | values)
