"""The policy that a node enforces, and the file that holds it between two runs."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b

from qmq.errors import ProtocolError
from qmq_node.log.atomic_file import read_file, replace_file
from qmq_node.log.disk import Disk
from qmq_node.policy import NO_POLICY, POLICY_BYTES_MAX, NodePolicy, decode_policy
from qmq_node.requests.send_gate import SendGate

_DIGEST_BYTES = 16


@dataclass(eq=False, repr=False)
class PolicyInForce:
    """The newest policy that the metaserver sent, stored in the node's data folder before it is applied."""

    _file: "PolicyFile"
    _send_gate: SendGate
    _on_change: Callable[[], None]
    """Called once a new policy is in force."""
    _logger: logging.Logger
    policy: NodePolicy = NO_POLICY

    def load(self) -> None:
        """Apply the stored policy; without one, or with an unreadable one, the node serves unrestricted. Reads the disk."""
        try:
            found = self._file.load()
        except (ProtocolError, OSError) as error:
            self._logger.error("the policy in %s can't be read, none is in force: %s", self._file.folder, error)
            return
        if found is not None:
            self._apply(found)
            self._logger.info("policy %s is in force, from the data folder", found.version)

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


class PolicyFile:
    """The policy document in a node's folder: replaced as a whole, durable when `save` returns, preceded by its checksum."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self.folder = folder
        self._path = f"{folder}/policy"

    def save(self, document: bytes) -> None:
        """Write a document as received: a newer version of this program may read more of it.

        Raises OSError; the previous file is unchanged then.
        """
        replace_file(self._disk, self._path, [_check(document) + b"\n", document])

    def load(self) -> NodePolicy | None:
        """The policy that was saved last; None when none was. Raises ProtocolError for a damaged file, or OSError."""
        stored = read_file(self._disk, self._path, POLICY_BYTES_MAX + 2 * _DIGEST_BYTES + 1)
        if stored is None:
            return None
        check, _, data = stored.partition(b"\n")
        if check != _check(data):
            raise ProtocolError("its check does not match")
        return decode_policy(data)


def _check(data: bytes) -> bytes:
    return blake2b(data, digest_size=_DIGEST_BYTES).hexdigest().encode()
