"""Load on delay groups: delayed sends at a constant rate, changes of some, and a consumer whose deliveries are checked
one by one."""

import asyncio
import random
import time
from array import array
from bisect import bisect_left
from collections.abc import Coroutine
from types import TracebackType
from typing import Any

from delay_node.due_lanes import FRAMES_IN_FLIGHT
from qmq import Consumer, DelayedMessages, Producer
from qmq.errors import QmqError, SendFailed
from qmq.protocol.delayed import DelayedChange, Outcome
from qmq.protocol.values import moment
from tests.faults.replication.load import BATCH, LIMITS, TICK_SECONDS, Received, Sends
from tests.faults.replication.scene import IS_FULL
from tests.support.promises import PromiseBroken
from tests.support.servers.system import System
from tests.support.waiting import ASK_SECONDS, eventually_async

DUE_IN_MS = range(2_000, 6_000) if IS_FULL else range(1_500, 3_000)
"""From a send to its due time. Messages fall due at the rate of the sends, also for some seconds in which none is
accepted."""
CHANGES_PER_SECOND = 20
CHANGED_BEFORE_MS = 1_000
"""A message is changed so long before its due time, or longer."""
LATER_MS = range(200, 1_000)
"""By how much a message is rescheduled."""
FLOW = 100
ON_THE_WAY = FRAMES_IN_FLIGHT * 500
"""Messages on their way to one broker group, at most: those that a failover may repeat."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class DelayLoad:
    """A producer of a constant number of delayed messages a second, one that cancels and reschedules some, and a
    consumer of them. Use it as `async with`.

    Leaving the block without an exception waits until everything that was accepted and not cancelled is received, and
    until nothing is under way, else raises PromiseBroken. So does a message that arrives before its due time or after a
    confirmed cancel.

    Args:
        subject: of the messages; no other load may have used it.
        others: pending messages of other subjects, none of which falls due meanwhile.
    """

    def __init__(self, system: System, per_second: int, *, subject: str = "reminders", others: int = 0) -> None:
        self._system = system
        self._per_second = per_second
        self.subject = subject
        self._others = others
        self._rng = random.Random(per_second)
        self.sends = Sends()
        self._received = Received(is_acked=False)
        self._due_ms = array("q")
        """By number: when it may be delivered, by what was confirmed last."""
        self._ready_ms = array("q")
        """When both that time had come and the confirmation had arrived; 0: the send is not confirmed."""
        self._copies = bytearray()
        self._resent: set[int] = set()
        """Its producer sent it more than once, so there may be several of it."""
        self._unsure: set[int] = set()
        """The outcome of its send, cancel or reschedule is unknown."""
        self._cancelled: set[int] = set()
        self._changed: set[int] = set()
        self._expected: set[int] = set()
        """Accepted and not received."""
        self._first_ms = array("q")
        """By number: when it arrived; 0: it has not."""
        self._arrived_ms, self._late_ms = array("q"), array("q")
        """Of each message that has arrived, in this order."""
        self.changes = 0
        """Confirmed ones."""
        self._is_ending = False
        self._clients: list[asyncio.Task[None]] = []
        self._requests: set[asyncio.Task[None]] = set()
        self._changing = 0

    async def __aenter__(self) -> "DelayLoad":
        self._clients = [asyncio.create_task(client) for client in (self._send(), self._change(), self._receive())]
        await self.flows()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                await self._finish()
        finally:
            tasks = [*self._clients, *self._requests]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    # --- for tests ----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise the error of a client that failed."""
        for task in self._clients:
            if task.done():
                task.result()
                assert self._is_ending, "a client ended"

    async def flows(self, count: int = FLOW) -> None:
        """Wait until so many further messages are accepted and received."""
        acked, received = self.sends.acked + count, len(self._arrived_ms) + count

        def flow() -> bool:
            self.check()
            return self.sends.acked >= acked and len(self._arrived_ms) >= received

        await eventually_async(flow, what="delayed messages are sent and received")

    async def delivered(self, until_ms: int) -> None:
        """Wait until everything that was to be delivered by a time is received."""

        def is_delivered() -> bool:
            self.check()
            return all(self._ready_ms[number] > until_ms for number in self._expected)

        await eventually_async(is_delivered, what="everything that is due is received", every_s=5 * TICK_SECONDS)

    async def until(self, moment_s: float) -> None:
        """Wait until a moment (monotonic seconds), and check the clients meanwhile."""

        def has_come() -> bool:
            self.check()
            return time.monotonic() >= moment_s

        await eventually_async(has_come)

    def latest(self, since_ms: int) -> float:
        """Return how late the latest message since a time was received, in seconds after it was due and its send
        confirmed."""
        return max(self._late_ms[bisect_left(self._arrived_ms, since_ms) :], default=0) / 1000

    def check_repeats(self, failovers: int) -> int:
        """Return how many messages were delivered more than once, without those that their producer sent again.

        Args:
            failovers: of the delay group or a broker group.

        Raises:
            PromiseBroken: There are more than so many failovers may repeat.
        """
        known = self._resent | self._unsure
        more = {number: count - 1 for number, count in enumerate(self._copies) if count > 1 and number not in known}
        limit = failovers * ON_THE_WAY * len(self._system.brokers)
        if sum(more.values()) > limit or max(more.values(), default=0) > failovers:
            raise PromiseBroken(
                f"{sum(more.values())} deliveries repeated, of {len(more)} messages; {failovers} failovers may repeat {limit}, each"
                f" message {failovers} times: {list(more.items())[:5]}"
            )
        return sum(more.values())

    # --- the end ------------------------------------------------------------------------------------------------------

    async def _finish(self) -> None:
        self._is_ending = True

        def is_answered() -> bool:
            self.check()
            return self._clients[0].done() and self._clients[1].done() and not self._requests

        await eventually_async(is_answered, what="every send and change is answered")

        def is_received() -> bool:
            self.check()
            return not self._expected

        try:
            await eventually_async(is_received)
        except AssertionError as error:
            some = sorted(self._expected)[:5]
            raise PromiseBroken(f"{len(self._expected)} accepted messages were not received: {some}") from error
        await eventually_async(self._is_quiet, what="nothing is under way", every_s=ASK_SECONDS)
        sends = self.sends
        rate = len(sends.groups) / (sends.begun_at[-1] - sends.begun_at[0])
        print(
            f"figure: {sends.acked} of {len(sends.groups)} delayed sends accepted, {rate:.0f} a second; {self.changes} changes"
            f" confirmed, {len(self._resent)} sent more than once"
        )

    def _is_quiet(self) -> bool:
        """Whether brokers have everything, and the consumer all of what they have."""
        self.check()
        pending = [page["pending"] for page in map(self._page, self._system.delays) if "pending" in page]
        stored = 0
        for group in self._system.brokers:
            subjects = self._page(group, f"?subject={self.subject}").get("subjects", ())
            stored += sum(one["end_sequence"] - one["begin_sequence"] for one in subjects)
        has_all = len(pending) == len(self._system.delays)
        return has_all and sum(pending) == self._others and stored == sum(self._copies)

    def _page(self, group: str, query: str = "") -> dict[str, Any]:
        """Return the page /stats of a group's master; {} without one."""
        for node in self._system.members(group):
            try:
                page: dict[str, Any] = self._system.admin(node.removesuffix("-a"), f"/stats{query}")
            except (OSError, ValueError):
                continue
            if page.get("role") == "master":
                return page
        return {}

    # --- clients ------------------------------------------------------------------------------------------------------

    def _request(self, request: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(request)
        self._requests.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._requests.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._clients.append(task)  # `check` raises it

    def _id(self, number: int) -> str:
        return f"{self.subject}-{number}"

    async def _send(self) -> None:
        began = time.monotonic()
        async with Producer(self._system.meta_url, app="load", limits=LIMITS) as producer:
            while not self._is_ending:
                for _ in range(int((time.monotonic() - began) * self._per_second) - len(self._copies)):
                    number = self.sends.begin()
                    self._due_ms.append(now_ms() + self._rng.choice(DUE_IN_MS))
                    self._ready_ms.append(0)
                    self._first_ms.append(0)
                    self._copies.append(0)
                    self._request(self._send_one(producer, number))
                await asyncio.sleep(TICK_SECONDS)
            await eventually_async(self._all_answered, what="every send is answered")

    def _all_answered(self) -> bool:
        return self.sends.acked + len(self.sends.errors) == len(self.sends.groups)

    async def _send_one(self, producer: Producer, number: int) -> None:
        try:
            receipt = await producer.send(
                self.subject, str(number), due=moment(self._due_ms[number]), message_id=self._id(number)
            )
        except SendFailed as error:
            self._unsure.add(number)
            self.sends.end(number, error)
            return
        self.sends.end(number, receipt)
        if receipt.attempts > 1:
            self._resent.add(number)
        self._confirmed(number, self._due_ms[number])

    def _confirmed(self, number: int, due_ms: int) -> None:
        """A message is stored with this due time, which is confirmed now."""
        self._due_ms[number], self._ready_ms[number] = due_ms, max(due_ms, now_ms())
        if not self._copies[number]:
            self._expected.add(number)

    async def _change(self) -> None:
        is_cancel = False
        async with DelayedMessages(self._system.meta_url) as messages:
            while not self._is_ending:
                number = self._rng.randrange(max(0, len(self._copies) - self._per_second), len(self._copies) + 1)
                if number in self._expected - self._changed and self._due_ms[number] >= now_ms() + CHANGED_BEFORE_MS:
                    is_cancel = not is_cancel
                    self._changed.add(number)
                    self._changing += 1
                    self._request(self._change_one(messages, number, is_cancel=is_cancel))
                await asyncio.sleep(1 / CHANGES_PER_SECOND)
            await eventually_async(lambda: not self._changing, what="every change is answered")

    async def _change_one(self, messages: DelayedMessages, number: int, *, is_cancel: bool) -> None:
        due_ms = self._due_ms[number]
        to_ms = due_ms + self._rng.choice(LATER_MS)
        known = {"subject": self.subject, "due": moment(due_ms), "delay_group": self.sends.groups[number]}
        try:
            if is_cancel:
                change = await messages.cancel(self._id(number), **known)  # type: ignore[arg-type]
            else:
                change = await messages.reschedule(self._id(number), to=moment(to_ms), **known)  # type: ignore[arg-type]
        except QmqError:
            self._unsure.add(number)
            self._expected.discard(number)
            return
        finally:
            self._changing -= 1
        self._has_changed(number, change, -1 if is_cancel else to_ms)

    def _has_changed(self, number: int, change: DelayedChange, to_ms: int) -> None:
        """A cancel (`to_ms` -1) or reschedule was answered."""
        if change.outcome is Outcome.NOT_FOUND:
            raise PromiseBroken(f"message {number} was accepted, and is not found")
        if change.outcome is Outcome.TOO_LATE:
            return
        if self._first_ms[number] and (to_ms < 0 or self._first_ms[number] < to_ms):
            raise PromiseBroken(f"message {number} was delivered, and its change is answered with {change.outcome}")
        self.changes += 1
        if to_ms >= 0:
            self._confirmed(number, to_ms)
        else:
            self._cancelled.add(number)
            self._expected.discard(number)

    async def _receive(self) -> None:
        async with Consumer(self._system.meta_url, self.subject, "billing", start="earliest") as consumer:
            async for batch in consumer.batches(BATCH, TICK_SECONDS):
                for one in batch:
                    number = int(one.body or "")
                    if self._received.add(one.broker_group, one.pull_sequence, number, one.received_at_ms):
                        self._arrived(number, one.received_at_ms)
                await batch.ack()

    def _arrived(self, number: int, at_ms: int) -> None:
        if at_ms < self._due_ms[number]:
            raise PromiseBroken(f"message {number} arrived {self._due_ms[number] - at_ms} ms before it was due")
        if number in self._cancelled:
            raise PromiseBroken(f"message {number} arrived after its cancel was confirmed")
        self._expected.discard(number)
        if not self._copies[number]:
            self._first_ms[number] = at_ms
            self._arrived_ms.append(at_ms)
            self._late_ms.append(max(0, at_ms - self._ready_ms[number]) if self._ready_ms[number] else 0)
        self._copies[number] = min(255, self._copies[number] + 1)
