"""class Membership: a node's registration with the metaserver, its heartbeats, and its lease by the node's own clock.

The node serves with or without a metaserver: the lease makes refusals fast after a promotion and is not needed for safety. Its
term begins when the answered heartbeat was *sent*.

An answer names the policy that the node must apply. If the node applies another one, it fetches the document concurrently with
heartbeats, so that neither a large document nor a slow disk ends the lease.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from qmq.clock import Clock
from qmq.daemon.first_failure import any_of
from qmq.errors import ProtocolError, QmqError
from qmq.net.caller import Caller
from qmq.net.connection_auth import authenticate
from qmq.net.discovery import find_metaserver
from qmq.net.node_secret import NodeSecret
from qmq.protocol.codes import BrokerRequestType, Command, ResponseCode
from qmq.protocol.extensions import (
    NodePolicyRequest,
    NodePolicyResponse,
    NodeRegisterRequest,
    NodeRegisterResponse,
    Refusal,
)
from qmq.supervisor import Supervisor

HEARTBEAT_SECONDS = 1.0
CALL_SECONDS = 2.0
BACK_OFF_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Pauses after consecutive failures; the last one repeats."""
POLICY_SECONDS = 10.0
"""Time limit for fetching a policy."""
POLICY_BACK_OFF_SECONDS = (1.0, 5.0, 30.0, 60.0)
"""Pauses after consecutive failures to fetch or apply a policy; the last one repeats. Another version is tried at once."""

logger = logging.getLogger("qmq.membership")


@dataclass(eq=False, repr=False)
class Membership:
    """Keeps one node registered."""

    _meta_url: str
    _describe: Callable[[BrokerRequestType], NodeRegisterRequest]
    """The request to send, by request type; called for each heartbeat."""
    _on_answer: Callable[[NodeRegisterResponse], None]
    """Called with every answer."""
    _on_policy: Callable[[bytes], Awaitable[None]]
    """Called with a policy's document; the policy is in force when it returns. Raises ProtocolError or OSError when it can't be
    applied; the previous one stays in force."""
    _clock: Clock
    _supervisor: Supervisor
    _secret: NodeSecret | None = None
    """The node secret, which node and metaserver prove to each other before the first registration of a connection."""
    _caller: Caller | None = None
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    last: NodeRegisterResponse | None = None
    failures: int = 0
    last_error: str = "not registered yet"
    _fetching: asyncio.Task[None] | None = None
    _policy_tried: str = ""
    _policy_not_before: float = 0.0
    _policy_failures_in_a_row: int = 0
    policy_failures: int = 0
    policy_error: str = ""
    """Why the newest policy is not in force; "" when it is, or none was requested."""

    def soon(self) -> None:
        """Send the next heartbeat now, because the node's state changed."""
        self._wake.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Register and send heartbeats until `stop`, then deregister."""
        request_type = BrokerRequestType.ONLINE
        while not stop.is_set():
            try:
                await self._send_heartbeat(request_type)
                request_type = BrokerRequestType.HEARTBEAT
                self.failures = 0
                self._supervisor.report("heartbeat", None)
                pause = self.last.heartbeat_seconds if self.last is not None else HEARTBEAT_SECONDS
            except Exception as error:  # noqa: BLE001 - the node serves without a metaserver
                if not isinstance(error, QmqError | OSError):
                    self._supervisor.report("heartbeat", error)
                await self._failed(error)
                request_type = BrokerRequestType.ONLINE
                pause = BACK_OFF_SECONDS[min(self.failures, len(BACK_OFF_SECONDS)) - 1]
            self._wake.clear()
            await any_of(stop, self._wake, seconds=max(0.05, pause))
        if self._fetching is not None:
            # A policy that is not stored yet is fetched again by the next process.
            await self._supervisor.cancel(self._fetching)
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await self._send_heartbeat(BrokerRequestType.OFFLINE)
        except (QmqError, OSError, TimeoutError) as error:
            logger.info("the metaserver did not receive the deregistration: %s", error)
        if self._caller is not None:
            await self._caller.close()

    async def _send_heartbeat(self, request_type: BrokerRequestType) -> None:
        if self._caller is None or self._caller.is_closed:
            self._caller = await self._connected()
        request = self._describe(request_type)
        frame = await self._caller.call(Command.NODE_REGISTER, request.encode(), timeout_s=CALL_SECONDS)
        if frame.code == ResponseCode.PARAM_ERROR:
            refusal = Refusal.decode(frame.body)
            raise QmqError(f"the metaserver rejected the registration: {refusal.message}", code=refusal.code)
        if frame.code != ResponseCode.SUCCESS:
            raise ProtocolError(f"the metaserver returned code {frame.code}")
        answer = NodeRegisterResponse.decode(frame.body)
        if self.last is None or (answer.accepted, answer.reason) != (self.last.accepted, self.last.reason):
            level = logging.INFO if answer.accepted and not answer.reason else logging.WARNING
            verdict = "accepted" if answer.accepted else "refused"
            logger.log(level, "metaserver: registration %s, epoch %d %s", verdict, answer.epoch, answer.reason)
        self.last, self.last_error = answer, "" if answer.accepted else answer.reason
        self._on_answer(answer)
        if request_type is not BrokerRequestType.OFFLINE:
            self._check_policy(request, answer.policy_version)

    async def _connected(self) -> Caller:
        """A new connection to the metaserver, authenticated if there is a secret."""
        host, port = await find_metaserver(self._meta_url)
        caller = Caller(host, port)
        await caller.connect()
        if self._secret is not None:
            try:
                await authenticate(caller, self._secret, "node", timeout_s=CALL_SECONDS)
            except BaseException:
                await caller.close()
                raise
        return caller

    def _check_policy(self, request: NodeRegisterRequest, wanted: str) -> None:
        """Fetch the policy if it is not the one applied. A metaserver that names none does not know the policies."""
        if not wanted or wanted == request.policy_version or self._fetching is not None or self._caller is None:
            return
        if wanted != self._policy_tried:
            self._policy_tried, self._policy_failures_in_a_row = wanted, 0
        elif self._clock.monotonic() < self._policy_not_before:
            return
        self._fetching = self._supervisor.background("policy_fetch", self._fetch(self._caller, request, wanted))

    async def _fetch(self, caller: Caller, request: NodeRegisterRequest, wanted: str) -> None:
        """Fetch a policy and apply it. An error of the metaserver, the network or the disk is logged here."""
        question = NodePolicyRequest(request.broker_group, request.node_id, request.policy_version)
        try:
            frame = await caller.call(Command.NODE_POLICY, question.encode(), timeout_s=POLICY_SECONDS)
            if frame.code != ResponseCode.SUCCESS:
                raise ProtocolError(f"the metaserver answered the request for policy {wanted} with code {frame.code}")
            answer = NodePolicyResponse.decode(frame.body)
            if answer.document:
                await self._on_policy(answer.document)
        except Exception as error:
            self._policy_failed(error)
            if not isinstance(error, QmqError | OSError):
                raise
        else:
            self.policy_error, self._policy_failures_in_a_row = "", 0
            # A metaserver that names one version and sends another is asked again only after a pause.
            self._policy_not_before = self._clock.monotonic() + POLICY_BACK_OFF_SECONDS[0]
            self.soon()
        finally:
            self._fetching = None

    def _policy_failed(self, error: Exception) -> None:
        self.policy_failures += 1
        self.policy_error = str(error)
        step = min(self._policy_failures_in_a_row, len(POLICY_BACK_OFF_SECONDS) - 1)
        self._policy_failures_in_a_row += 1
        self._policy_not_before = self._clock.monotonic() + POLICY_BACK_OFF_SECONDS[step]
        logger.error("policy %s could not be applied, the previous one stays: %s", self._policy_tried, error)

    async def _failed(self, error: Exception) -> None:
        self.failures += 1
        self.last_error = str(error)
        if self.failures == 1:
            logger.warning("this node is not registered with the metaserver and continues to serve: %s", error)
        if self._caller is not None:
            await self._caller.close()
            self._caller = None
