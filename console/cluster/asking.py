"""Asking nodes: one question to many at once, one deadline for the whole request, and an answer that names every node.

What a node did not answer is there with the reason: a hole is never shown as nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from asgiref.sync import async_to_sync

from console.cluster import limits
from console.cluster.admin import node_admin
from metaserver import queries
from metaserver.errors import NotFound
from qmq.errors import CallTimeout, ConnectionLost, QmqError, SettingError, Unreachable
from qmq.node_admin import ANSWER_BYTES_MAX, NodeAdmin, NodeRefused
from qmq.words import seconds as seconds_text

T = TypeVar("T")
GROUPS_MAX = 200
"""Broker groups of one answer; a system has a few dozen."""
NO_ADDRESS = "no node has registered with an admin address"
UNKNOWN_THERE = ("subject.unknown", "group.unknown")


@dataclass(frozen=True, slots=True)
class Answers(Generic[T]):
    """What nodes answered, by name. A node is in exactly one of `values`, `absent` and `unreachable`."""

    values: dict[str, T]
    absent: dict[str, str]
    """Nodes that have no such subject or consumer group, with what they answered."""
    unreachable: dict[str, str]
    """Nodes that did not answer, and why."""
    codes: dict[str, str]
    """Error codes of the nodes that did not respond."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of what several broker or delay groups hold."""

    rows: Sequence[T]
    next: str | None
    """The cursor of the next page; None when every group that responded was read to its end."""
    unreachable: Mapping[str, str]
    """Groups that could not be reached, and why: their rows are missing."""


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes to query by their admin pages, and unreachable ones with the reason. Broker groups stand for their masters."""

    admins: Mapping[str, NodeAdmin]
    unreachable: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def at(
        cls,
        addresses: Mapping[str, str],
        seconds: float | None = None,
        bytes_max: int = ANSWER_BYTES_MAX,
        *,
        offline: Container[str] = (),
    ) -> "Nodes":
        """Nodes by name and admin address.

        Args:
            seconds: for each question; by default NODE_SECONDS, and OFFLINE_NODE_SECONDS for nodes that are `offline`.
        """
        admins: dict[str, NodeAdmin] = {}
        unreachable: dict[str, str] = {}
        for name, address in addresses.items():
            try:
                if address:
                    default = limits.OFFLINE_NODE_SECONDS if name in offline else limits.NODE_SECONDS
                    admins[name] = node_admin(address, seconds or default, bytes_max)
                else:
                    unreachable[name] = NO_ADDRESS
            except SettingError as error:
                unreachable[name] = str(error)
        return cls(admins, unreachable)

    def one(self, name: str) -> NodeAdmin:
        """One of them.

        Raises:
            ConnectionLost: it can't be reached.
        """
        if name not in self.admins:
            raise ConnectionLost(f"broker group {name}: {self.unreachable.get(name, 'unknown')}", code="node.no_master")
        return self.admins[name]

    def only(self, names: Iterable[str]) -> "Nodes":
        """The same without the nodes that are to be left out; those that can't be reached stay."""
        wanted = set(names)
        return Nodes({name: admin for name, admin in self.admins.items() if name in wanted}, self.unreachable)

    def ask(self, question: Callable[[str, NodeAdmin], Awaitable[T]]) -> Answers[T]:
        """Ask all at once from synchronous code.

        Raises:
            CallTimeout: it took longer than REQUEST_SECONDS.
        """
        return ask(lambda: self.answers(question))

    async def answers(
        self,
        question: Callable[[str, NodeAdmin], Awaitable[T]],
        *,
        seconds: float | None = None,
        at_once: int = GROUPS_MAX,
    ) -> Answers[T]:
        """Ask all at once.

        Args:
            seconds: for all that the question asks of one node.
            at_once: nodes that are queried at the same time.
        """
        slots = asyncio.Semaphore(at_once)

        async def one(name: str, admin: NodeAdmin) -> T | QmqError | OSError:
            async with slots:
                try:
                    async with asyncio.timeout(seconds):
                        return await question(name, admin)
                except TimeoutError:
                    return CallTimeout(f"timed out after {seconds_text(seconds or 0)}", code="node.timeout")
                except (QmqError, OSError) as error:
                    return error

        results = await asyncio.gather(*(one(name, admin) for name, admin in self.admins.items()))
        found: Answers[T] = Answers({}, {}, dict(self.unreachable), {})
        for name, result in zip(self.admins, results, strict=True):
            if isinstance(result, NodeRefused) and result.code in UNKNOWN_THERE:
                found.absent[name] = str(result)
            elif isinstance(result, QmqError | OSError):
                found.unreachable[name] = reason_of(result)
                found.codes[name] = getattr(result, "code", "")
            else:
                found.values[name] = result
        return found


def reason_of(error: QmqError | OSError) -> str:
    """Why a node did not answer, for people who see its name beside it."""
    return error.reason if isinstance(error, Unreachable) else str(error)


def broker(name: str) -> Nodes:
    """The master of one broker group.

    Raises:
        NotFound: there is no such broker group.
    """
    if name not in queries.broker_masters():
        raise NotFound(f"Broker group {name!r} not found.", code="broker_group.unknown")
    return brokers([name])


def brokers(names: Iterable[str] | None = None) -> Nodes:
    """The masters of broker groups; None: of all. A group that no longer exists is reported as unreachable."""
    wanted_names = None if names is None else set(names)
    known = queries.broker_masters() if wanted_names is None or wanted_names else {}
    wanted = sorted(known if wanted_names is None else wanted_names)
    nodes = _masters({name: known[name] for name in wanted[:GROUPS_MAX] if name in known})
    unreachable = {name: "this broker group no longer exists" for name in wanted if name not in known}
    unreachable |= dict.fromkeys(wanted[GROUPS_MAX:], f"not queried: the limit is {GROUPS_MAX} broker groups at a time")
    return Nodes(nodes.admins, {**nodes.unreachable, **unreachable})


def delay_groups() -> Nodes:
    """The masters of all delay groups."""
    return _masters(queries.delay_masters())


def _masters(known: Mapping[str, queries.MasterAddress]) -> Nodes:
    addresses = {name: master.admin_address for name, master in known.items()}
    return Nodes.at(addresses, offline={name for name, master in known.items() if master.is_offline})


def ask(work: Callable[[], Awaitable[T]], *, seconds: float | None = None) -> T:
    """Run a coroutine from synchronous code, for REQUEST_SECONDS or what is given.

    Raises:
        CallTimeout: it took longer.
    """
    limit = seconds or limits.REQUEST_SECONDS

    async def run() -> T:
        try:
            async with asyncio.timeout(limit):
                return await work()
        except TimeoutError as error:
            raise CallTimeout(f"no response within {seconds_text(limit)}", code="node.timeout") from error

    return async_to_sync(run)()
