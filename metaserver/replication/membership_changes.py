"""class MembershipChanges: changes of broker groups' memberships in the database, with an answer that says what is
known. No Django."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypeVar

from metaserver.memory.membership_wishes import LogLost, MembershipWish
from qmq.errors import QmqError
from qmq.protocol.group_memberships import MembershipResult
from qmq_node.process.counters import counted
from qmq_node.replication.rules.membership import ChangeRejected, Membership

T = TypeVar("T")
logger = logging.getLogger("qmq.meta.memberships")

WAITING_MAX = 64
"""Changes that wait for the database; further ones are answered at once."""
ANSWER_SECONDS = 5.0
"""How long a request waits for the database."""
CLOSE_SECONDS = 1.0
"""How long the end of the metaserver waits for a change that is being made."""


class MembershipStore(Protocol):
    """Called from one thread only. Every call may raise when the database is unavailable."""

    def read(self, name: str) -> Membership:
        """The membership of a broker group. Raises QmqError if there is none."""

    def change(self, name: str, wish: MembershipWish, newest_place: tuple[int, int]) -> Membership:
        """Change the membership by compare-and-set, as `metaserver.services.memberships.change_membership` does. Raises
        ChangeRejected, or QmqError if there is none."""

    def record_known(self, name: str, place: tuple[int, int]) -> None:
        """Record that this place of the membership is known, if the stored membership is older."""

    def close(self) -> None:
        """Close the connection to the database."""


@dataclass(frozen=True, slots=True)
class MembershipAnswer:
    """The answer to a request."""

    result: MembershipResult
    membership: Membership | None
    """The newest membership that was read; None if none was."""
    reason: str = ""
    lost: LogLost | None = None
    """Set if a promotion was refused because of what is stored of the node's log."""


@dataclass(slots=True)
class MembershipCounters:
    changes: int = counted("membership_changes", "Changes of masters and in-sync sets")
    unavailable: int = counted("membership_changes_unavailable", "Requested changes whose outcome is unknown")


@dataclass(eq=False, repr=False)
class MembershipChanges:
    """Makes changes one after the other, in a thread and with a connection of its own: they never wait for other writes."""

    _store: MembershipStore
    _on_membership: Callable[[Membership], None]
    """Called on the event loop with each membership that was read or stored."""
    _waiting: int = field(default=0, init=False)
    _is_closed: bool = field(default=False, init=False)
    counters: MembershipCounters = field(default_factory=MembershipCounters, init=False)
    _thread: ThreadPoolExecutor = field(default_factory=partial(ThreadPoolExecutor, 1, "memberships"), init=False)

    async def make(self, name: str, wish: MembershipWish, newest_place: tuple[int, int]) -> MembershipAnswer:
        """Change the membership of a broker group.

        Args:
            newest_place: the highest epoch and version of the membership that this metaserver has seen.
        """
        if self._waiting >= WAITING_MAX:
            return self._unavailable(f"{self._waiting} changes wait for the database")
        self._waiting += 1
        work = asyncio.get_running_loop().run_in_executor(self._thread, partial(self._make, name, wish, newest_place))
        work.add_done_callback(self._made)
        try:
            # Shielded: the thread completes it in any case, and `_on_membership` is called then.
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await asyncio.shield(work)
        except TimeoutError:
            return self._unavailable(f"the database has not responded for {ANSWER_SECONDS:g} s")
        if answer.result is MembershipResult.UNAVAILABLE:
            self.counters.unavailable += 1
        return answer

    async def read(self, name: str) -> None:
        """Read the membership of a broker group for `_on_membership`; nothing happens if there is none, or the database
        does not respond."""
        membership = await self._run(self._read, name)
        if membership is not None:
            self._on_membership(membership)

    async def record_known(self, name: str, place: tuple[int, int]) -> None:
        """Record in the database that a newer membership is known than the stored one, so that no other metaserver changes that.

        Raises what the database raises. Nothing happens while too many changes wait.
        """
        if not self._is_closed:
            await self._run(self._store.record_known, name, place)

    async def _run(self, call: Callable[..., T], *arguments: Any) -> T | None:
        """Call it in the thread; None, and no call, while too many calls wait."""
        if self._waiting >= WAITING_MAX:
            return None
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, partial(call, *arguments))
        finally:
            self._waiting -= 1

    def _unavailable(self, reason: str) -> MembershipAnswer:
        self.counters.unavailable += 1
        return MembershipAnswer(MembershipResult.UNAVAILABLE, None, reason)

    def _made(self, work: "asyncio.Future[MembershipAnswer]") -> None:
        self._waiting -= 1
        if work.cancelled() or work.exception() is not None:
            return
        answer = work.result()
        if answer.result is MembershipResult.DONE:
            self.counters.changes += 1
        if answer.membership is not None:
            self._on_membership(answer.membership)

    async def close(self) -> None:
        """End the thread and its connection. Changes that wait are not made; one being made has CLOSE_SECONDS to complete."""
        self._is_closed = True
        closing = asyncio.get_running_loop().run_in_executor(self._thread, self._store.close)
        self._thread.shutdown(wait=False)
        await asyncio.wait([closing], timeout=CLOSE_SECONDS)

    # --- in the thread ---------------------------------------------------------------------------------------------

    def _make(self, name: str, wish: MembershipWish, newest_place: tuple[int, int]) -> MembershipAnswer:
        intended: Membership | None = None

        def noted(membership: Membership) -> Membership:
            nonlocal intended
            intended = wish.change(membership)
            return intended

        if self._is_closed:
            return MembershipAnswer(MembershipResult.UNAVAILABLE, None, "this metaserver stops")
        try:
            membership = self._store.change(name, replace(wish, change=noted), newest_place)
        except ChangeRejected as rejected:
            result = MembershipResult.STALE if rejected.is_stale else MembershipResult.REFUSED
            lost = rejected if isinstance(rejected, LogLost) else None
            return MembershipAnswer(result, self._read(name), str(rejected), lost)
        except QmqError as error:
            return MembershipAnswer(MembershipResult.REFUSED, None, str(error))
        except Exception as error:  # noqa: BLE001 - any error of the database; the metaserver continues
            logger.warning("it is unknown whether the membership of %s was changed (%s): %s", name, wish.action, error)
            return self._resolved(name, intended, error)
        return MembershipAnswer(MembershipResult.DONE, membership)

    def _resolved(self, name: str, intended: Membership | None, error: Exception) -> MembershipAnswer:
        """What became of a change after an error of the database: its answer may have been lost.

        Only a membership that is as intended says anything for certain. A membership that is as before may still be changed, by a
        transaction that the database has not ended yet.
        """
        membership = self._read(name)
        if membership is not None and intended is not None:
            # That a newer one is known may have been recorded meanwhile.
            if replace(membership, known_place=intended.known_place) == intended:
                return MembershipAnswer(MembershipResult.DONE, membership)
            if membership.version >= intended.version:
                return MembershipAnswer(MembershipResult.STALE, membership, "the membership has changed meanwhile")
        return MembershipAnswer(MembershipResult.UNAVAILABLE, membership, f"the database failed: {error}")

    def _read(self, name: str) -> Membership | None:
        if self._is_closed:
            return None
        try:
            return self._store.read(name)
        except QmqError:
            # There is no such group: it has registered, and is not stored yet.
            return None
        except Exception as error:  # noqa: BLE001 - as in `_make`
            logger.info("the membership of %s can't be read: %s", name, error)
            return None
