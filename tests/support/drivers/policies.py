"""Policies of a metaserver inside the test's own process."""

from collections.abc import Mapping

from metaserver.memory.directory import Directory
from qmq_node.policy import NodePolicy


def set_policies(directory: Directory, policies: Mapping[str, NodePolicy]) -> None:
    """Set the policies by broker group, as a reload of the metadata does."""
    directory.policies.set(*directory.policies.encoded(policies))
