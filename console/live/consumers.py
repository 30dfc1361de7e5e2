"""Websockets: `/ws/lag/`, `/ws/nodes/`, `/ws/events/`, `/ws/tail/`.

Plain ASGI instead of Channels' consumer classes, which keep a Redis subscription for each client. A client has a short queue and
a
writer; a client that does not read is disconnected, so that others do not wait for it.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from channels.db import database_sync_to_async
from django.conf import settings
from django.db import Error as DatabaseError

from console.accounts.roles import Right
from console.cluster.entries import note_reading
from console.http.requests import new_id, plain_client_id
from console.live import access
from console.live.audiences import Shown
from console.live.hub import Hub
from console.live.sockets import BadRequest, Close, Receive, Request, Send, Socket, close, request_of
from console.live.tail import FilterRefused, Tail
from console.snapshot.feeds import Feed
from metaserver import queries
from metaserver.services.changes import Actor
from qmq.clock import Clock, SystemClock

logger = logging.getLogger("qmq.live")

WEBSOCKETS_PER_USER_MAX = 20
WEBSOCKETS_MAX = 2_000
RECHECK_SECONDS = 4.0
"""Interval at which accounts are checked: a revoked right takes effect within 5 s."""
UNCHECKED_SECONDS_MAX = 30.0
"""Time for which clients stay connected without a check while the database is unavailable."""
Scope = Mapping[str, Any]


_DROPPED = {
    Close.NOT_SIGNED_IN: "signed out",
    Close.NOT_ALLOWED: "permission was revoked",
    Close.NOT_FOUND: "the subject was deleted",
}
"""Why an open websocket is closed when its account is checked again."""


@dataclass(slots=True)
class _TailRun:
    """A poller with its task."""

    tail: Tail
    task: asyncio.Task[None]


class LiveApp:
    """The ASGI application of one process. Everything it holds belongs to the event loop it first ran in."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._hub: Hub | None = None
        self._sockets: set[Socket] = set()
        self._tails: dict[tuple[str, str, str], _TailRun] = {}
        """By subject, filter, and role of the readers."""
        self._total = 0
        self._by_user: Counter[str] = Counter()
        self._checking: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        event = await receive()
        if event["type"] != "websocket.connect":
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        address = (scope.get("client") or ("",))[0]
        offered = list(scope.get("subprotocols", ()))
        credential, subprotocol = access.credential_of(headers, offered, address)
        if not access.is_origin_allowed(headers.get("origin"), credential, scope, headers.get("host", "")):
            # Not accepted: the page of another site learns nothing, not even a code.
            await send({"type": "websocket.close", "code": int(Close.NOT_ALLOWED)})
            return
        if self._total >= WEBSOCKETS_MAX:
            await send({"type": "websocket.close", "code": int(Close.TOO_MANY)})
            return
        self._total += 1
        try:
            await send({"type": "websocket.accept", "subprotocol": subprotocol})
            await self._accepted(scope, receive, send, credential, headers)
        except OSError as error:
            logger.debug("a websocket went away: %s", error)
        finally:
            self._total -= 1

    async def _accepted(
        self, scope: Scope, receive: Receive, send: Send, credential: access.Credential, headers: Mapping[str, str]
    ) -> None:
        """Accepted at once, so that a refusal has a code that scripts of the page can read."""
        try:
            request = request_of(scope["path"], scope.get("query_string", b""))
        except (BadRequest, ValueError) as error:
            return await close(send, Close.BAD_REQUEST, str(error))
        try:
            visitor, refusal = await self._look_up(credential, request)
        except DatabaseError as error:
            logger.warning("a websocket is refused: the database can't be asked: %s", error)
            return await close(send, Close.TRY_LATER, "accounts are unavailable")
        if visitor is None:
            return await close(send, Close.NOT_SIGNED_IN, "sign in first")
        if refusal is Close.NOT_FOUND:
            return await close(send, refusal, f"subject {request.tail} not found")
        if refusal is not None:
            return await close(send, refusal, f"requires permission {request.right}")
        by_user = self._by_user
        if by_user[visitor.username] >= WEBSOCKETS_PER_USER_MAX:
            return await close(
                send, Close.TOO_MANY, f"this user has {WEBSOCKETS_PER_USER_MAX} open websockets, the maximum"
            )
        if request.feed == Feed("events") and visitor.principal.has(Right.READ_AUDIT):
            request = Request(request.right, Feed("audit"))
        if request.tail is not None:
            request = replace(request, role=visitor.principal.role)
        by_user[visitor.username] += 1
        socket = Socket(request, credential, visitor.username)
        socket.checked_at = started_at = self._clock.monotonic()
        try:
            self._join(socket)
            await socket.serve(receive, send)
        finally:
            self._leave(socket)
            by_user[visitor.username] -= 1
            if not by_user[visitor.username]:
                del by_user[visitor.username]
            if request.tail is not None:
                client_request_id = plain_client_id(headers.get("x-request-id", ""))
                actor = Actor(visitor.principal.name, credential.address, new_id(), client_request_id)
                await self._note_tail(actor, request.tail, socket.shown, self._clock.monotonic() - started_at)
        return None

    @staticmethod
    async def _note_tail(actor: Actor, subject: str, shown: Shown, seconds: float) -> None:
        """Write the audit entry of a live tail that ended: by its client, a lost right, or a stop of the process."""
        counts = {"messages": shown.messages, "with_bodies": shown.with_bodies}
        what = {**counts, "path": "/ws/tail/", "seconds": round(seconds, 1)}
        try:
            await database_sync_to_async(note_reading)(actor, subject, what)
        except DatabaseError:
            logger.exception("the audit log lacks a live tail of %s by %s: %s", subject, actor.name, what)

    @staticmethod
    async def _look_up(credential: access.Credential, request: Request) -> tuple[access.Visitor | None, Close | None]:
        """Return the account, None if it is not signed in, and why it may not see this; None if it may."""

        def look() -> tuple[access.Visitor | None, Close | None]:
            visitor = access.find(credential)
            tails = _tails([request]) if visitor is not None else ()
            return visitor, _refusal(visitor, request, queries.owners_of(tails) if tails else {})

        found: tuple[access.Visitor | None, Close | None] = await database_sync_to_async(look)()
        return found

    def _join(self, socket: Socket) -> None:
        if self._hub is None:
            self._hub = Hub(settings.REDIS_URL, self._clock)
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(self._check_again())
        self._sockets.add(socket)
        if socket.request.feed is not None:
            self._hub.join(socket.request.feed, socket)
        elif socket.request.tail is None:
            socket.on_show = partial(self._hub.show, socket)
            self._hub.join_rows(socket)
        subject, role = socket.request.tail, socket.request.role
        if subject is not None:
            key = subject, socket.request.filter_text, role
            run = self._tails.get(key)
            if run is None or run.task.done():
                tail = Tail(*key, self._clock)
                run = self._tails[key] = _TailRun(tail, asyncio.create_task(tail.run()))
                run.task.add_done_callback(lambda task: self._tail_ended(tail, task))
            run.tail.join(socket)

    def _leave(self, socket: Socket) -> None:
        self._sockets.discard(socket)
        assert self._hub is not None
        if socket.request.feed is not None:
            self._hub.leave(socket.request.feed, socket)
        else:
            self._hub.leave_rows(socket)
        key = socket.request.tail or "", socket.request.filter_text, socket.request.role
        run = self._tails.get(key)
        if run is not None:
            run.tail.audience.clients.discard(socket)
            if not run.tail.audience.clients:
                run.task.cancel()
                del self._tails[key]

    @staticmethod
    def _tail_ended(tail: Tail, task: "asyncio.Task[None]") -> None:
        if task.cancelled() or (error := task.exception()) is None:
            return
        code, reason = Close.FAILED, "the tail failed"
        if isinstance(error, FilterRefused):
            code, reason = Close.BAD_REQUEST, f"filter: {error}"
        else:
            logger.error("the tail of %s failed", tail.subject, exc_info=error)
        for client in tuple(tail.audience.clients):
            if isinstance(client, Socket):
                client.drop(code, reason)

    # --- checked again ----------------------------------------------------------------------------------------------

    async def _check_again(self) -> None:
        """While there are websockets: each account once a round, however many websockets it has."""
        while self._sockets:
            await asyncio.sleep(RECHECK_SECONDS)
            try:
                await self._check_all()
            except Exception:
                logger.exception("accounts can't be checked again")
                self._unchecked(self._clock.monotonic())

    async def _check_all(self) -> None:
        """Look up each credential once and the owners of all tails with one query, however many websockets there are."""
        now = self._clock.monotonic()
        sockets: defaultdict[access.Credential, list[Socket]] = defaultdict(list)
        for socket in self._sockets:
            sockets[socket.credential].append(socket)
        try:
            tails = _tails(socket.request for socket in self._sockets)
            owners = await database_sync_to_async(queries.owners_of)(tails) if tails else {}
            for credential, its_sockets in sockets.items():
                visitor: access.Visitor | None = await database_sync_to_async(access.find)(credential)
                for socket in its_sockets:
                    refusal = _refusal(visitor, socket.request, owners)
                    if refusal is None and socket.request.feed == Feed("audit") and not _reads_audit(visitor):
                        refusal = Close.NOT_ALLOWED
                    if refusal is not None:
                        socket.drop(refusal, _DROPPED[refusal])
                    elif socket.request.tail is not None and visitor and visitor.principal.role != socket.request.role:
                        socket.drop(Close.TRY_LATER, "the role was changed")
                    socket.checked_at = now
        except DatabaseError as error:
            logger.warning("accounts can't be looked at again: %s", error)
            self._unchecked(now)

    def _unchecked(self, now: float) -> None:
        for socket in tuple(self._sockets):
            if now - socket.checked_at > UNCHECKED_SECONDS_MAX:
                socket.drop(Close.TRY_LATER, "accounts are unavailable")


def _tails(requests: Iterable[Request]) -> set[str]:
    """The subjects whose messages are wanted."""
    return {request.tail for request in requests if request.tail is not None}


def _refusal(visitor: access.Visitor | None, request: Request, owners: Mapping[str, str | None]) -> Close | None:
    """Why a visitor may not see this; None if it may. `owners` are those of all tails that exist."""
    if visitor is None:
        return Close.NOT_SIGNED_IN
    if not visitor.principal.has(request.right):
        return Close.NOT_ALLOWED
    if request.tail is not None and request.tail not in owners:
        return Close.NOT_FOUND
    return None if visitor.principal.may(request.right, owners.get(request.tail or "")) else Close.NOT_ALLOWED


def _reads_audit(visitor: access.Visitor | None) -> bool:
    return visitor is not None and visitor.principal.has(Right.READ_AUDIT)
