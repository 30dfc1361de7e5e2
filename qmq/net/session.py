"""A client's session with its metaservers: registrations, and the routes in responses and pushes."""

import asyncio
import logging
import platform
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from qmq.clock import SystemClock
from qmq.errors import ProtocolError, QmqError, RouteUnknown
from qmq.net.discovery import split_address
from qmq.net.failure_log import FailureLog
from qmq.net.meta_connection import MetaConnection
from qmq.net.routing import former_masters
from qmq.net.timing import Backoff, Timeouts
from qmq.protocol.codes import ClientRequestType, ClientType, Command, ResponseCode
from qmq.protocol.commands import BrokerGroupRoute, ClientRegisterRequest, ClientRegisterResponse
from qmq.protocol.frames import Frame, encode_request
from qmq.supervisor import Supervisor
from qmq.version import __version__

REFRESH_SECONDS = 60.0
"""How often every subject is registered again, as the official client does."""
REFRESH_INTERVAL_SECONDS = 1.0
"""Refreshes because of failures are at least this far apart, per subject."""
AGENT = f"PyQMQ/{__version__} Python/{platform.python_version()}"
"""What clients report of themselves: library and language, each with its version."""
REQUESTS_PER_BATCH = 100
"""Registrations sent in one turn of the event loop: some 2 ms."""


logger = logging.getLogger("qmq.client")

Key = tuple[str, int]
"""(subject, client type): what a route belongs to."""


@dataclass(eq=False, slots=True)
class _Interest:
    request: ClientRegisterRequest
    routes: tuple[BrokerGroupRoute, ...] = ()
    is_online: bool = True
    known: asyncio.Event = field(default_factory=asyncio.Event)
    requested_at: float = float("-inf")


class MetaSession:
    """One connection to one of the metaservers at `urls`, kept up in the background.

    When the metaserver can't be reached or stops answering, the session uses the next one and registers everything there. Known
    routes stay in use meanwhile.

    `on_change(subject, client_type)` is called whenever routes or the online state of a subject changed, and before it, for each of
    the subject's broker groups that got another master, `on_master_changed(subject, client_type, address of the former master)`.
    """

    def __init__(self, urls: Sequence[str], *, app: str, client_id: str, timeouts: Timeouts, backoff: Backoff) -> None:
        self._app = app
        self.client_id = client_id
        """Goes into the registrations made from now on."""
        self._timeouts = timeouts
        self._backoff = backoff
        self._interests: dict[Key, dict[str, _Interest]] = {}
        """By subject and client type, then by consumer group."""
        self._unrequested: OrderedDict[_Interest, None] = OrderedDict()
        """To be registered now, the oldest first."""
        self._requested: OrderedDict[_Interest, None] = OrderedDict()
        """All others, in the order of their last registrations."""
        self._task: asyncio.Task[None] | None = None
        self._supervisor: Supervisor | None = None
        self._has_ended = False
        self._bad_routes: dict[Key, tuple[BrokerGroupRoute, ...]] = {}
        self._wake = asyncio.Event()
        self._connection = MetaConnection(
            urls, on_push=self._pushed, on_lost=self._wake.set, connect_seconds=timeouts.connect
        )
        self._highest_timestamp = -1
        """Of the responses on the present connection: another metaserver has another clock."""
        self.on_change: Callable[[str, int], None] | None = None
        self.on_master_changed: Callable[[str, ClientType, str], None] | None = None
        self._masters: dict[Key, dict[str, str]] = {}
        """The newest known master of each broker group, by subject and client type: a route may name none meanwhile."""
        self.last_error = ""

    def start(self, supervisor: Supervisor | None = None) -> None:
        """Begin, on the running loop.

        Args:
            supervisor: receives unexpected failures. None: one of the session's own, which logs it; `wait_routes` raises.
        """
        self._supervisor = supervisor or Supervisor(SystemClock(), logger=logger, on_failure=lambda name, error: None)
        self._task = self._supervisor.critical("meta_session", self._run())
        self._task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """Fail calls that wait for routes: none will arrive any more."""
        error = None if task.cancelled() else task.exception()
        self.last_error = f"task 'meta_session' {'ended' if error is None else f'failed: {error}'}"
        self._has_ended = True
        for interest in (*self._unrequested, *self._requested):
            interest.known.set()

    async def close(self) -> None:
        """End. The protocol has no message for it: registrations expire in the metaserver."""
        if self._task is not None and self._supervisor is not None:
            await self._supervisor.cancel(self._task)
            self._task = None
        await self._connection.close()

    @property
    def metaservers(self) -> str:
        """The address pages of the metaservers, for messages."""
        return str(self._connection.urls)

    @property
    def _log_name(self) -> str:
        return f"the metaserver at {self.metaservers}"

    def routes(self, subject: str, client_type: ClientType) -> tuple[BrokerGroupRoute, ...]:
        """The known routes; none before the first response."""
        for interest in self._interests.get((subject, int(client_type)), {}).values():
            if interest.routes:
                return interest.routes
        return ()

    def is_online(self, subject: str, group: str) -> bool:
        """Whether a consumer group may pull."""
        interest = self._interests.get((subject, int(ClientType.CONSUMER)), {}).get(group)
        return interest is None or interest.is_online

    def register(self, subject: str, client_type: ClientType, group: str = "") -> None:
        """Register a subject, and keep it registered."""
        by_group = self._interests.setdefault((subject, int(client_type)), {})
        if group not in by_group:
            request = ClientRegisterRequest(
                subject, client_type, self._app, self.client_id, group, ClientRequestType.ONLINE, agent=AGENT
            )
            interest = by_group[group] = _Interest(request)
            self._unrequested[interest] = None
            self._wake.set()

    async def wait_routes(self, subject: str, client_type: ClientType, group: str = "") -> tuple[BrokerGroupRoute, ...]:
        """Routes of a subject, registering it if need be. Raises RouteUnknown when none came in time, or the session ended."""
        self.register(subject, client_type, group)
        interest = self._interests[(subject, int(client_type))][group]
        try:
            async with asyncio.timeout(self._timeouts.route):
                if not self._has_ended:
                    await interest.known.wait()
            if not interest.routes:
                raise RouteUnknown(f"no route for subject {subject} from {self.metaservers}: {self.last_error}")
        except TimeoutError as error:
            what = "delay group" if client_type is ClientType.DELAY_PRODUCER else "broker group"
            why = self.last_error or f"no usable {what}; check that one is running"
            raise RouteUnknown(f"no route for subject {subject} from {self.metaservers}: {why}") from error
        return interest.routes

    def refresh(self, subject: str, client_type: ClientType) -> None:
        """Something failed that a new route may mend."""
        now = asyncio.get_running_loop().time()
        for interest in self._interests.get((subject, int(client_type)), {}).values():
            if now - interest.requested_at >= REFRESH_INTERVAL_SECONDS:
                self._requested.pop(interest, None)
                self._unrequested[interest] = None
                self._wake.set()

    async def _run(self) -> None:
        failures = 0
        while True:
            self._wake.clear()
            try:
                await self._connect()
                await self._send_requests()
                await self._connection.check()
                if failures:
                    FailureLog.shared().recovered(self._log_name)
                failures = 0
                self.last_error = ""
            except (QmqError, OSError) as error:
                failures += 1
                self.last_error = str(error)
                if failures == 1:
                    FailureLog.shared().failed(self._log_name, self.metaservers, str(error))
                await asyncio.sleep(self._backoff.pause(failures))
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._wake.wait()

    async def _connect(self) -> None:
        if self._connection.is_open:
            return
        await self._connection.open()
        self._highest_timestamp = -1
        self._unrequested, self._requested = self._requested | self._unrequested, OrderedDict()

    async def _send_requests(self) -> None:
        """Register what is due. Raises ConnectionLost; what is left is registered on the next connection."""
        now, sent = asyncio.get_running_loop().time(), 0
        while (interest := self._next_due(now)) is not None:
            self._connection.send(encode_request(Command.CLIENT_REGISTER, 0, interest.request.encode()))
            interest.requested_at = now
            self._unrequested.pop(interest, None)
            self._requested.pop(interest, None)
            self._requested[interest] = None
            sent += 1
            if sent % REQUESTS_PER_BATCH == 0:
                await asyncio.sleep(0)

    def _next_due(self, now: float) -> _Interest | None:
        """The next to be registered, if any is due."""
        if self._unrequested:
            return next(iter(self._unrequested))
        oldest = next(iter(self._requested), None)
        return oldest if oldest is not None and now - oldest.requested_at >= REFRESH_SECONDS else None

    def _pushed(self, frame: Frame) -> None:
        if frame.code != ResponseCode.SUCCESS:
            self.last_error = f"the metaserver returned code {frame.code}"
            return
        try:
            answer = ClientRegisterResponse.decode(frame.body)
        except ProtocolError as error:
            logger.warning("an answer of the metaserver can't be read: %s", error)
            return
        is_current = answer.timestamp_ms >= self._highest_timestamp
        self._highest_timestamp = max(self._highest_timestamp, answer.timestamp_ms)
        routes = self._good_routes(answer)
        for group, interest in self._interests.get((answer.subject, answer.client_type), {}).items():
            if routes:
                interest.routes = routes
                interest.known.set()
            if is_current and group == answer.group:
                interest.is_online = answer.online
        self._note_masters(answer, routes)
        if self.on_change is not None:
            self.on_change(answer.subject, answer.client_type)

    def _note_masters(self, answer: ClientRegisterResponse, routes: tuple[BrokerGroupRoute, ...]) -> None:
        key = (answer.subject, answer.client_type)
        if key not in self._interests:
            return
        known = self._masters.setdefault(key, {})
        former = former_masters(known, routes)
        known.update((route.name, route.master) for route in routes if route.master)
        if self.on_master_changed is not None:
            for master in former:
                self.on_master_changed(answer.subject, ClientType(answer.client_type), master)

    def _good_routes(self, answer: ClientRegisterResponse) -> tuple[BrokerGroupRoute, ...]:
        """The routes whose address can be used, or that have none; the others are logged and left out.

        A bad route must not stop a client that can use the subject's other broker groups.
        """
        good, bad = [], []
        for route in answer.broker_groups:
            try:
                if route.master:
                    split_address(route.master)
                good.append(route)
            except ProtocolError as error:
                bad.append(route)
                self.last_error = f"the route to {route.name} can't be used: {error}"
        key = (answer.subject, answer.client_type)
        if tuple(bad) != self._bad_routes.get(key, ()):
            for route in bad:
                logger.warning(
                    "the metaserver's route of %s to %s can't be used and is ignored: %r is not of the form host:port",
                    answer.subject, route.name, route.master[:80],
                )  # fmt: skip
        if bad:
            self._bad_routes[key] = tuple(bad)
        else:
            self._bad_routes.pop(key, None)
        return tuple(good)
