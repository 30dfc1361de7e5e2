"""What `qmq consume` has printed: acknowledged as the reader of its output takes it."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from qmq.cli.output import Lines, warn
from qmq.client.delivery import Delivery
from qmq.errors import QmqError
from qmq.protocol.values import moment

POLL_SECONDS = 0.2
"""How often `qmq consume` checks whether it is to end."""
TAKE_SECONDS = 1.0
"""How long it waits at its end until its reader has taken what is in the pipe."""


class Printed:
    """The deliveries of one `qmq consume` that are printed, until they are acknowledged."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self.count = 0
        self.unreadable = 0
        self._open: deque[tuple[int, Delivery]] = deque()
        """Deliveries that are not acknowledged, each with where its line ends."""

    async def add(self, delivery: Delivery, is_over: Callable[[], bool]) -> None:
        """Print a delivery. One that can't be decoded is reported, and not acknowledged; nor is one whose end was not printed."""
        try:
            parts = self.lines.parts(_line_of(delivery))
        except QmqError as error:
            self.unreadable += 1
            warn(f"message {delivery.message_id} can't be read, the group receives it again: {error}")
            return
        for part in parts:
            while not await self._has_room():
                if is_over():
                    return
            try:
                self.lines.write(part)
            except BrokenPipeError:
                return
        self.count += 1
        self._open.append((self.lines.written, delivery))

    async def _has_room(self) -> bool:
        """Wait until the pipe has room for a part, for at most POLL_SECONDS; whether it has."""
        if self.lines.pipe is None or self.lines.has_room():
            return True
        loop, room = asyncio.get_running_loop(), asyncio.Event()
        loop.add_writer(self.lines.pipe, room.set)
        try:
            async with asyncio.timeout(POLL_SECONDS):
                await room.wait()
        except TimeoutError:
            return False
        finally:
            loop.remove_writer(self.lines.pipe)
        return True

    async def ack_taken(self) -> None:
        """Acknowledge what the reader has taken."""
        taken = self.lines.taken
        while self._open and self._open[0][0] <= taken:
            await self._open.popleft()[1].ack()

    async def ack_rest(self) -> int:
        """Acknowledge all if the reader is there: it takes what is in the pipe. How many messages it has not taken otherwise."""
        loop = asyncio.get_running_loop()
        until = loop.time() + TAKE_SECONDS
        await self.ack_taken()
        while self._open and not self.lines.is_closed() and loop.time() < until:
            await asyncio.sleep(TAKE_SECONDS / 100)
            await self.ack_taken()
        if not self.lines.is_closed():
            for _, delivery in self._open:
                await delivery.ack()
            self._open.clear()
        return len(self._open)


def _line_of(delivery: Delivery) -> dict[str, Any]:
    return {
        "message_id": delivery.message_id,
        "properties": delivery.properties,
        "tags": list(delivery.tags),
        "times": {
            "created_at": delivery.created_at.isoformat().replace("+00:00", "Z"),
            "received_at": moment(delivery.received_at_ms).isoformat().replace("+00:00", "Z"),
        },
        "attempt": delivery.attempt,
    }
