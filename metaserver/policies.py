"""Which policy each broker group's nodes shall apply. Pure: where the content comes from is the caller's.

Until somebody says what the policies are, none is known, which is not the same as an empty one: a metaserver that has just
started, or whose database is away, must not lift what nodes enforce.
"""

from collections.abc import Mapping

from qmq.daemon.policy import EMPTY_POLICY, NodePolicy, encode_policy


class Policies:
    """Policies by broker group; groups without one have the empty policy."""

    def __init__(self) -> None:
        self._policies: dict[str, NodePolicy] | None = None
        self._documents: dict[str, bytes] = {}
        """By version: those of the policies in force."""

    def set(self, policies: Mapping[str, NodePolicy]) -> None:
        """Replace them all.

        Raises:
            ProtocolError: a document would be too long for nodes; nothing is changed.
        """
        documents = {policy.version: self._document(policy) for policy in policies.values()}
        self._documents = {**documents, EMPTY_POLICY.version: encode_policy(EMPTY_POLICY)}
        self._policies = dict(policies)

    def _document(self, policy: NodePolicy) -> bytes:
        return self._documents.get(policy.version) or encode_policy(policy)

    def of(self, broker_group: str) -> NodePolicy | None:
        """The group's policy; None when nobody has said yet what the policies are."""
        return None if self._policies is None else self._policies.get(broker_group, EMPTY_POLICY)

    def version(self, broker_group: str) -> str:
        """The version that the group's nodes shall apply; "" when none is known."""
        policy = self.of(broker_group)
        return "" if policy is None else policy.version

    def document(self, broker_group: str, known_version: str) -> tuple[str, bytes]:
        """(version, document); the document is empty when the node knows that version, or none is known here."""
        policy = self.of(broker_group)
        if policy is None:
            return "", b""
        return policy.version, b"" if policy.version == known_version else self._documents[policy.version]
