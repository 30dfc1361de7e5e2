"""The policy that a node enforces, and the file that holds it between two runs."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from qmq.errors import ProtocolError
from qmq_node.log.atomic_file import CheckedFile
from qmq_node.log.disk import Disk
from qmq_node.policy import NO_POLICY, POLICY_BYTES_MAX, NodePolicy, decode_policy
from qmq_node.requests.send_gate import SendGate


def policy_file(disk: Disk, folder: str) -> CheckedFile:
    """The policy document in a node's folder, as received: a newer version of this program may read more of it."""
    return CheckedFile(disk, folder, "policy", POLICY_BYTES_MAX)


@dataclass(eq=False, repr=False)
class PolicyInForce:
    """The newest policy that the metaserver sent, stored in the node's data folder before it is applied."""

    _file: CheckedFile
    """As `policy_file` returns it."""
    _send_gate: SendGate
    _on_change: Callable[[], None]
    """Called once a new policy is in force."""
    _logger: logging.Logger
    policy: NodePolicy = NO_POLICY

    def load(self) -> None:
        """Apply the stored policy; without one, or with an unreadable one, the node serves unrestricted. Reads the disk."""
        try:
            document = self._file.load()
            policy = decode_policy(document) if document is not None else None
        except (ProtocolError, OSError) as error:
            self._logger.error("the policy in %s can't be read, none is in force: %s", self._file.path, error)
            return
        if policy is not None:
            self._apply(policy)
            self._logger.info("policy %s is in force, from the data folder", policy.version)

    async def replace(self, document: bytes) -> None:
        """Store a policy in a thread, then apply it.

        Raises ProtocolError for an invalid document, or OSError when it can't be stored; the previous policy stays in force.
        """

        def store() -> NodePolicy:
            policy = decode_policy(document)
            self._file.save(document)
            return policy

        policy = await asyncio.to_thread(store)
        self._apply(policy)
        self._on_change()
        self._logger.info(
            "policy %s is in force: rules for %d subjects, %d pauses, %s",
            policy.version, len(policy.subjects), len(policy.paused), policy.read_only or "writable",
        )  # fmt: skip

    def _apply(self, policy: NodePolicy) -> None:
        self.policy = policy
        self._send_gate.apply(policy)
