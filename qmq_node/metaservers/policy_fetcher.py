"""class PolicyFetcher: fetches the policy that a metaserver's answer names, and has the node apply it.

It works concurrently with heartbeats, so that neither a large document nor a slow disk ends the lease.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from qmq.clock import Clock
from qmq.errors import ProtocolError, QmqError
from qmq.net.caller import Caller
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.extensions import NodePolicyRequest, NodePolicyResponse, NodeRegisterRequest
from qmq.supervisor import Supervisor

FETCH_SECONDS = 10.0
"""Time limit for fetching a policy."""
BACK_OFF_SECONDS = (1.0, 5.0, 30.0, 60.0)
"""Pauses after consecutive failures to fetch or apply a policy; the last one repeats. Another version is tried at once."""

logger = logging.getLogger("qmq.metaservers")


@dataclass(eq=False, repr=False)
class PolicyFetcher:
    """Fetches one policy at a time."""

    _apply: Callable[[bytes], Awaitable[None]]
    """Called with a policy's document; the policy is in force when it returns. Raises ProtocolError or OSError when it can't be
    applied; the previous one stays in force."""
    _on_applied: Callable[[], None]
    """Called when a policy is in force."""
    _clock: Clock
    _supervisor: Supervisor
    failures: int = 0
    problem: str = ""
    """Why the newest policy is not in force; "" when it is, or none was requested."""
    _fetching: asyncio.Task[None] | None = None
    _tried: str = ""
    _not_before: float = 0.0
    _failures_in_a_row: int = 0

    def check(self, caller: Caller | None, request: NodeRegisterRequest, wanted: str) -> None:
        """Fetch a policy unless it is the one in force, or was tried a moment ago.

        Args:
            caller: the connection to the metaserver that names the policy; None: the metaserver can't be asked.
            request: the node's last registration, which names the policy in force.
            wanted: the version that the node must apply; "" from a metaserver that does not know the policies.
        """
        if not wanted or wanted == request.policy_version or self._fetching is not None or caller is None:
            return
        if wanted != self._tried:
            self._tried, self._failures_in_a_row = wanted, 0
        elif self._clock.monotonic() < self._not_before:
            return
        self._fetching = self._supervisor.background("policy_fetch", self._fetch(caller, request, wanted))

    async def close(self) -> None:
        """Stop fetching. A policy that is not stored yet is fetched again by the next process."""
        if self._fetching is not None:
            await self._supervisor.cancel(self._fetching)

    async def _fetch(self, caller: Caller, request: NodeRegisterRequest, wanted: str) -> None:
        """Fetch a policy and apply it. An error of the metaserver, the network or the disk is logged here."""
        question = NodePolicyRequest(request.broker_group, request.node_id, request.policy_version)
        try:
            frame = await caller.call(Command.NODE_POLICY, question.encode(), timeout_s=FETCH_SECONDS)
            if frame.code != ResponseCode.SUCCESS:
                raise ProtocolError(f"the metaserver answered the request for policy {wanted} with code {frame.code}")
            answer = NodePolicyResponse.decode(frame.body)
            if answer.document:
                await self._apply(answer.document)
        except Exception as error:
            self._failed(error)
            if not isinstance(error, QmqError | OSError):
                raise
        else:
            self.problem, self._failures_in_a_row = "", 0
            # A metaserver that names one version and sends another is asked again only after a pause.
            self._not_before = self._clock.monotonic() + BACK_OFF_SECONDS[0]
            self._on_applied()
        finally:
            self._fetching = None

    def _failed(self, error: Exception) -> None:
        self.failures += 1
        self.problem = str(error)
        step = min(self._failures_in_a_row, len(BACK_OFF_SECONDS) - 1)
        self._failures_in_a_row += 1
        self._not_before = self._clock.monotonic() + BACK_OFF_SECONDS[step]
        logger.error("policy %s could not be applied, the previous one stays: %s", self._tried, error)
