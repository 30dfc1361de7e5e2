"""Asking nodes from synchronous code: who to ask, one deadline for the whole request, answers that keep their holes.

An answer put together from several broker groups names those that could not be asked, and why: a hole is never shown as nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from asgiref.sync import async_to_sync

from console.node_admin import node_admin
from metaserver import queries
from metaserver.services.changes import NotFound
from qmq.client.nodes import NodeAdmin
from qmq.errors import CallTimeout, ConnectionLost, QmqError

T = TypeVar("T")
REQUEST_SECONDS = 20.0
"""All that one request of the API asks of nodes, together."""
NODE_SECONDS = 5.0
"""One question to one node: well below REQUEST_SECONDS, so that a silent node leaves a hole and not a failure."""
GROUPS_MAX = 200
"""Broker groups of one answer; a system has a few dozen."""


@dataclass(frozen=True, slots=True)
class Nodes:
    """Broker groups to ask by their masters' admin pages, and those that have none, with the reason."""

    admins: Mapping[str, NodeAdmin]
    unreachable: Mapping[str, str] = field(default_factory=dict)

    def one(self, name: str) -> NodeAdmin:
        """One group's master.

        Raises:
            ConnectionLost: it can't be asked.
        """
        if name not in self.admins:
            raise ConnectionLost(f"broker group {name}: {self.unreachable.get(name, 'unknown')}", code="node.no_master")
        return self.admins[name]


def broker(name: str) -> Nodes:
    """The master of one broker group.

    Raises:
        NotFound: there is no such broker group.
    """
    if name not in queries.broker_admin_addresses():
        raise NotFound(f"Broker group {name!r} not found.", code="broker_group.unknown")
    return brokers([name])


def brokers(names: Iterable[str] | None = None) -> Nodes:
    """The masters of broker groups; None: of all. One that is not known any more can't be asked."""
    known = queries.broker_admin_addresses()
    wanted = sorted(known if names is None else set(names))
    admins: dict[str, NodeAdmin] = {}
    unreachable: dict[str, str] = {}
    for name in wanted[:GROUPS_MAX]:
        if name not in known:
            unreachable[name] = "this broker group no longer exists"
        elif known[name]:
            admins[name] = node_admin(known[name], NODE_SECONDS)
        else:
            unreachable[name] = "no node has registered with an admin address"
    unreachable |= dict.fromkeys(wanted[GROUPS_MAX:], f"not queried: the limit is {GROUPS_MAX} broker groups at a time")
    return Nodes(admins, unreachable)


def ask(work: Callable[[], Awaitable[T]], *, seconds: float = REQUEST_SECONDS) -> T:
    """Run a coroutine from synchronous code.

    Raises:
        CallTimeout: it took longer.
    """

    async def run() -> T:
        try:
            async with asyncio.timeout(seconds):
                return await work()
        except TimeoutError as error:
            raise CallTimeout(f"no response within {seconds:g} s", code="node.timeout") from error

    return async_to_sync(run)()


async def ask_each(work: Mapping[str, Awaitable[T]]) -> tuple[dict[str, T], dict[str, QmqError]]:
    """Ask all at once: what they answered, and the errors of those that did not."""
    results = await asyncio.gather(*work.values(), return_exceptions=True)
    answers: dict[str, T] = {}
    errors: dict[str, QmqError] = {}
    for name, result in zip(work, results, strict=True):
        if isinstance(result, QmqError):
            errors[name] = result
        elif isinstance(result, BaseException):
            raise result
        else:
            answers[name] = result
    return answers, errors
