"""class MetaserverSession: a node's registration with one metaserver: its connection, its heartbeats and its back-off."""

import asyncio
import logging
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any

from qmq.clock import Clock
from qmq.errors import ProtocolError, QmqError, SettingError
from qmq.net.caller import Caller
from qmq.net.discovery import find_metaserver
from qmq.net.node_secret import NodeSecret
from qmq.protocol.codes import BrokerRequestType, Command, ResponseCode
from qmq.protocol.extensions import NodeRegisterRequest, NodeRegisterResponse, Refusal
from qmq.supervisor import Supervisor
from qmq_node.process.first_failure import any_of
from qmq_node.server.connection_auth import authenticate

if TYPE_CHECKING:
    from qmq_node.metaservers.metaservers import Metaservers

CALL_SECONDS = 2.0
"""Time limit for each step: opening a connection, the proof of the node secret, a heartbeat; and for leaving as a whole."""
BACK_OFF_SECONDS = (0.2, 0.5, 1.0)
"""Pauses after consecutive failures; the last one repeats. Heartbeats are as frequent, so attempts cost a metaserver no more. A
master that was cut off learns from one of them that it has a successor."""
DUPLICATE_SECONDS = 60.0
"""How often a session whose address page names the metaserver of another session requests that page again."""

logger = logging.getLogger("qmq.metaservers")


@dataclass(eq=False, repr=False)
class MetaserverSession:
    """Keeps a node registered with the metaserver whose address page is `url`.

    Its lease begins when the answered heartbeat was *sent*.
    """

    url: str
    _owner: "Metaservers"
    _clock: Clock
    _supervisor: Supervisor
    _secret: NodeSecret | None
    """Node and metaserver prove it to each other before the first registration of a connection. None: no proof."""
    _: KW_ONLY
    address: str = ""
    """TCP address of the metaserver that this session is connected to; "" without a connection."""
    caller: Caller | None = None
    last: NodeRegisterResponse | None = None
    failures: int = 0
    """Attempts that failed in a row."""
    problem: str = "not registered yet"
    """Why the node is not registered here; "" when it is."""
    is_duplicate: bool = False
    """The address page names the metaserver of another session. This session sends nothing to it."""
    _answered_at: float = 0.0
    """When the last answered heartbeat was sent, in monotonic seconds."""
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def soon(self) -> None:
        """Send the next heartbeat now, because the node's state changed."""
        if not self.is_duplicate:
            self._wake.set()

    @property
    def has_lease(self) -> bool:
        """Whether the last answer is recent enough to count."""
        return self.last is not None and self._clock.monotonic() - self._answered_at <= self.last.lease_seconds

    @property
    def is_registered(self) -> bool:
        """Whether the metaserver has accepted the node, and its lease has not expired."""
        return self.has_lease and self.last is not None and self.last.accepted

    @property
    def knows_policy(self) -> bool:
        """Whether the metaserver has answered within its lease and named the policy that the node must apply."""
        return self.has_lease and self.last is not None and bool(self.last.policy_version)

    def report(self) -> dict[str, Any]:
        """This session for the page `/stats`."""
        if self.is_duplicate:
            state = "duplicate"
        elif self.has_lease:
            state = "registered" if self.is_registered else "rejected"
        else:
            state = "not_registered"
        age = None if self.last is None else round(self._clock.monotonic() - self._answered_at, 3)
        return {"url": self.url, "address": self.address, "state": state, "problem": self.problem,
                "last_answer_seconds": age}  # fmt: skip

    async def run(self) -> None:
        """Register and send heartbeats until cancelled. Never waits for another session."""
        request_type = BrokerRequestType.ONLINE
        while True:
            self._wake.clear()
            try:
                pause = await self._heartbeat(request_type)
                request_type = BrokerRequestType.HEARTBEAT
            except Exception as error:  # noqa: BLE001 - the node serves without a metaserver
                pause = await self._failed(error)
                request_type = BrokerRequestType.ONLINE
            await any_of(self._wake, seconds=max(0.05, pause))

    async def leave(self) -> None:
        """Deregister, within CALL_SECONDS, and close the connection. `run` has ended."""
        try:
            if not self.is_duplicate:
                async with asyncio.timeout(CALL_SECONDS):
                    await self._send(await self._connected(), self._owner.describe(BrokerRequestType.OFFLINE))
        except Exception as error:  # noqa: BLE001 - the node continues to stop
            logger.info(
                "the metaserver %s did not receive the deregistration: %s", self.url, str(error) or "no answer in time"
            )
        await self._close()

    async def _heartbeat(self, request_type: BrokerRequestType) -> float:
        """Send a heartbeat; returns the pause until the next one, in seconds."""
        caller = await self._connected()
        request, sent_at = self._owner.describe(request_type), self._clock.monotonic()
        answer = await self._send(caller, request)
        self._answered_at, self.failures = sent_at, 0
        self._supervisor.report("heartbeat", None)
        if self.last is None or (answer.accepted, answer.reason) != (self.last.accepted, self.last.reason):
            level = logging.INFO if answer.accepted and not answer.reason else logging.WARNING
            verdict = "accepted" if answer.accepted else "refused"
            logger.log(
                level, "metaserver %s: registration %s, epoch %d %s", self.url, verdict, answer.epoch, answer.reason
            )
        self.last, self.problem = answer, "" if answer.accepted else answer.reason
        self._owner.answered(self, request)
        return answer.heartbeat_seconds

    async def _send(self, caller: Caller, request: NodeRegisterRequest) -> NodeRegisterResponse:
        frame = await caller.call(Command.NODE_REGISTER, request.encode(), timeout_s=CALL_SECONDS)
        if frame.code == ResponseCode.PARAM_ERROR:
            refusal = Refusal.decode(frame.body)
            raise QmqError(f"the metaserver rejected the registration: {refusal.message}", code=refusal.code)
        if frame.code != ResponseCode.SUCCESS:
            raise ProtocolError(f"the metaserver returned code {frame.code}")
        return NodeRegisterResponse.decode(frame.body)

    async def _connected(self) -> Caller:
        """The connection to the metaserver; a new one if there is none, authenticated if there is a secret."""
        if self.caller is not None and not self.caller.is_closed:
            return self.caller
        host, port = await find_metaserver(self.url)
        address = f"{host}:{port}"
        other = self._owner.session_at(address)
        if other is not None and other is not self:
            # The metaserver closes the older one of two connections with one node id: both would reconnect endlessly.
            self.is_duplicate = True
            raise SettingError(
                f"{self.url} and {other.url} both lead to the metaserver at {address}. Remove one of them from --meta, or,"
                " if they are two metaservers, have each advertise an address of its own"
            )
        self.address, self.is_duplicate = address, False
        caller = Caller(host, port, connect_seconds=CALL_SECONDS, on_push=self._owner.pushed)
        await caller.connect()
        if self._secret is not None:
            try:
                await authenticate(caller, self._secret, "node", timeout_s=CALL_SECONDS)
            except BaseException:
                await caller.close()
                raise
        self.caller = caller
        return caller

    async def _failed(self, error: Exception) -> float:
        """Record a failed attempt; returns the pause before the next one, in seconds."""
        self.failures += 1
        is_known, self.problem = self.problem == str(error), str(error)
        if not isinstance(error, QmqError | OSError):
            self._supervisor.report("heartbeat", error)
        if self.is_duplicate:
            if not is_known:
                logger.error("this node registers there once: %s", error)
        elif self.failures == 1:
            logger.warning("this node is not registered with metaserver %s and continues to serve: %s", self.url, error)
        await self._close()
        return (
            DUPLICATE_SECONDS if self.is_duplicate else BACK_OFF_SECONDS[min(self.failures, len(BACK_OFF_SECONDS)) - 1]
        )

    async def _close(self) -> None:
        caller, self.caller, self.address = self.caller, None, ""
        if caller is not None:
            await caller.close()
