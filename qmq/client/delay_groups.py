"""The delay groups of a system: where they are, and requests to one or all of them."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

from qmq.client.lifecycle import client_forked
from qmq.client.own_commands import OwnCommands
from qmq.errors import ConnectionLost, ProtocolError, QmqError
from qmq.net.discovery import STATUS_NOT_FOUND, STATUS_OK, all_lost, http_get, meta_urls, page_beside, pages_missing
from qmq.net.meta_connection import LastGood
from qmq.net.pool import Pool
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.extensions import Refusal

T = TypeVar("T")
GROUPS_SECONDS = 5.0
"""How long the addresses that the metaserver returned are used."""
PAGE_SECONDS = 3.0
"""Time limit for the page of one metaserver; the next one is asked after it."""
REQUEST_SECONDS = 30.0
"""Time limit of one request."""


class DelayGroups:
    """Sends requests to delay groups, whose addresses the metaservers at `url` know."""

    def __init__(self, url: str, pool: Pool) -> None:
        self._metaservers = LastGood(meta_urls(url))
        self._pool = pool
        self._groups: dict[str, str] = {}
        self._groups_until = 0.0
        self._process: int | None = None
        """The process that uses it, whose event loop the connections belong to."""

    def check_process(self) -> None:
        """Raise ClientForked if a parent of this process has used it."""
        if self._process not in (None, process := os.getpid()):
            raise client_forked()
        self._process = process

    async def groups(self) -> dict[str, str]:
        """Delay groups and their masters' addresses. Raises ConnectionLost if no metaserver was ever reached."""
        self.check_process()
        now = asyncio.get_running_loop().time()
        if now < self._groups_until:
            return self._groups
        try:
            self._groups = await self._fetch()
        except QmqError:
            if not self._groups:
                raise
            return self._groups
        self._groups_until = now + GROUPS_SECONDS
        return self._groups

    async def _fetch(self) -> dict[str, str]:
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
            return {group["name"]: group["address"] for group in json.loads(body)["delay_groups"]}
        raise all_lost(problems)

    async def call(self, group: str, command: Command, body: bytes, decode: Callable[[memoryview], T]) -> T:
        """Send an own command to a delay group and return the answer. Raises QmqError if the group refuses or does not respond."""
        address = (await self.groups()).get(group)
        if address is None:
            raise QmqError(f"the system has no delay group {group!r}", code="delay.group_unknown")
        caller = await self._pool.get(address)
        frame = await OwnCommands.shared().call(caller, command, body, timeout_s=REQUEST_SECONDS)
        if frame is None:
            raise QmqError(
                f"delay group {group} cannot find or change delayed messages (a delay node of the official QMQ server)",
                code="delay.unsupported",
            )
        if frame.code == ResponseCode.PARAM_ERROR:
            refusal = Refusal.decode(frame.body)
            raise QmqError(refusal.message, code=refusal.code or "delay.error")
        if frame.code != ResponseCode.SUCCESS:
            raise ProtocolError(f"delay group {group} returned code {frame.code}")
        return decode(frame.body)

    async def call_all(
        self, command: Command, body: bytes, decode: Callable[[memoryview], T]
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
