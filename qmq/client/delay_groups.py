"""The delay groups of a system: where they are, and requests to one or all of them."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from qmq.client.lifecycle import client_forked
from qmq.client.own_commands import OwnCommands
from qmq.errors import ConnectionLost, ProtocolError, QmqError
from qmq.net.caller import Caller
from qmq.net.discovery import STATUS_NOT_FOUND, STATUS_OK, all_lost, http_get, meta_urls, page_beside, pages_missing
from qmq.net.meta_connection import LastGood
from qmq.net.pool import Pool
from qmq.net.timing import Backoff
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.extensions import Refusal
from qmq.protocol.frames import Frame

T = TypeVar("T")
GROUPS_SECONDS = 5.0
"""How long the addresses that the metaserver returned are used."""
PAGE_SECONDS = 3.0
"""Time limit for the page of one metaserver; the next one is asked after it."""
REQUEST_SECONDS = 30.0
"""Time limit of one request."""
REPEAT_SECONDS = 10.0
"""How long a request to a delay group of several members is repeated after its master could not answer: another one is promoted
meanwhile."""
REPEAT_BACKOFF = Backoff(first=0.1, longest=1.0)
"""Pauses between the attempts; the metaserver is asked for the master before each."""


@dataclass(frozen=True, slots=True)
class DelayGroup:
    name: str
    address: str
    """Of its master; empty while it has none."""
    has_slaves: bool
    """Whether another member can become the master."""


NOT_MASTER = frozenset({"log.slave", "log.failed"})
"""Codes of a node that can't write to its log: it is not the master any more, or ends."""


class _NotMaster(QmqError):
    """The node answered that it is not the master. It may have executed a part of the request."""


class DelayGroups:
    """Sends requests to delay groups, whose addresses the metaservers at `url` know."""

    def __init__(self, url: str, pool: Pool) -> None:
        self._metaservers = LastGood(meta_urls(url))
        self._pool = pool
        self._groups: dict[str, DelayGroup] = {}
        self._fetched_at = float("-inf")
        self._process: int | None = None
        """The process that uses it, whose event loop the connections belong to."""

    def check_process(self) -> None:
        """Raise ClientForked if a parent of this process has used it."""
        if self._process not in (None, process := os.getpid()):
            raise client_forked()
        self._process = process

    async def groups(self) -> dict[str, str]:
        """Delay groups and their masters' addresses. Raises ConnectionLost if no metaserver was ever reached."""
        return {name: group.address for name, group in (await self._known()).items()}

    async def _known(self, age_max: float = GROUPS_SECONDS) -> dict[str, DelayGroup]:
        """The groups as a metaserver returned them `age_max` seconds ago, or later. Raises as `groups`."""
        self.check_process()
        now = asyncio.get_running_loop().time()
        if now - self._fetched_at < age_max:
            return self._groups
        try:
            self._groups = await self._fetch()
        except QmqError:
            if not self._groups:
                raise
            return self._groups
        self._fetched_at = now
        return self._groups

    async def _fetch(self) -> dict[str, DelayGroup]:
        problems = []
        for url in self._metaservers.candidates():
            page = page_beside(url, "/meta/delay-groups")
            try:
                status, body = await http_get(page, timeout_s=PAGE_SECONDS)
                if status == STATUS_NOT_FOUND:
                    raise pages_missing(page)
                if status != STATUS_OK:
                    raise ConnectionLost(f"{page} returned {status}")
            except ConnectionLost as error:
                problems.append(error)
                continue
            found = json.loads(body)["delay_groups"]
            return {one["name"]: DelayGroup(one["name"], one["address"], one.get("members", 1) > 1) for one in found}
        raise all_lost(problems)

    async def call(
        self,
        group: str,
        command: Command,
        body: bytes | Callable[[], bytes],
        decode: Callable[[memoryview], T],
        *,
        is_repeatable: bool = True,
    ) -> T:
        """Send an own command to a delay group and return the answer.

        A group of several members may get another master: then the request is repeated there, up to REPEAT_SECONDS.

        Args:
            body: the request, or a function that returns it for each attempt.
            is_repeatable: whether a request that may have been executed is sent again.

        Raises QmqError if the group refuses or does not respond.
        """
        loop, failures, give_up_at = asyncio.get_running_loop(), 0, 0.0
        while True:
            known = (await self._known(REPEAT_BACKOFF.first if failures else GROUPS_SECONDS)).get(group)
            if known is None:
                raise QmqError(f"the system has no delay group {group!r}", code="delay.group_unknown")
            is_sent = False
            try:
                caller = await self._watched(known, self._connect(known))
                is_sent = True
                content = body if isinstance(body, bytes) else body()
                request = OwnCommands.shared().call(caller, command, content, timeout_s=REQUEST_SECONDS)
                return self._decoded(group, await self._watched(known, request), decode)
            except (ConnectionLost, _NotMaster):
                failures += 1
                give_up_at = give_up_at or loop.time() + REPEAT_SECONDS
                pause = REPEAT_BACKOFF.pause(failures)
                may_repeat = known.has_slaves and (is_repeatable or not is_sent)
                if not may_repeat or loop.time() + pause > give_up_at:
                    raise
            await asyncio.sleep(pause)

    async def _connect(self, group: DelayGroup) -> Caller:
        if not group.address:
            raise ConnectionLost(f"delay group {group.name} has no master at the moment")
        return await self._pool.get(group.address)

    async def _watched(self, group: DelayGroup, work: Coroutine[Any, Any, T]) -> T:
        """Wait for a request to the master of a group, which may hang. Raises ConnectionLost when the group has another one."""
        if not group.has_slaves:
            return await work
        request = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait([request], timeout=GROUPS_SECONDS))[0]:
                with suppress(QmqError):
                    now = (await self._known()).get(group.name, group)
                    if now.address not in ("", group.address):
                        self._pool.disconnect(group.address)
            return await request
        finally:
            request.cancel()

    def _decoded(self, group: str, frame: Frame | None, decode: Callable[[memoryview], T]) -> T:
        if frame is None:
            raise QmqError(
                f"delay group {group} cannot find or change delayed messages (a delay node of the official QMQ server)",
                code="delay.unsupported",
            )
        if frame.code == ResponseCode.PARAM_ERROR:
            refusal = Refusal.decode(frame.body)
            kind = _NotMaster if refusal.code in NOT_MASTER else QmqError
            raise kind(refusal.message, code=refusal.code or "delay.error")
        if frame.code == ResponseCode.BROKER_REJECT:
            raise _NotMaster(f"delay group {group} has another master", code="delay.not_master", retriable=True)
        if frame.code != ResponseCode.SUCCESS:
            raise ProtocolError(f"delay group {group} returned code {frame.code}")
        return decode(frame.body)

    async def call_all(
        self, command: Command, body: bytes | Callable[[], bytes], decode: Callable[[memoryview], T]
    ) -> tuple[dict[str, T], dict[str, str]]:
        return await self.request_all(lambda group: self.call(group, command, body, decode))

    async def request_all(self, request: Callable[[str], Awaitable[T]]) -> tuple[dict[str, T], dict[str, str]]:
        """Send a request to every delay group; the answers, and why others could not be reached. Raises QmqError without any."""
        names = list(await self.groups())
        if not names:
            raise QmqError(
                "the system has no delay group; start one with `python -m delay_node`", code="delay.no_group"
            )
        results = await asyncio.gather(*(request(name) for name in names), return_exceptions=True)
        answers: dict[str, T] = {}
        problems: dict[str, str] = {}
        for name, result in zip(names, results, strict=True):
            if isinstance(result, QmqError):
                problems[name] = str(result)
            elif isinstance(result, BaseException):
                raise result
            else:
                answers[name] = result
        if not answers:
            name, first = next((n, r) for n, r in zip(names, results, strict=True) if isinstance(r, QmqError))
            raise QmqError(f"delay group {name}: {first}", code=first.code, retriable=first.retriable) from first
        return answers, problems
