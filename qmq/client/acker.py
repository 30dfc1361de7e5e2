"""Acknowledgements of one source to one broker group: class Acker."""

import asyncio
from contextlib import suppress

from qmq.client.ack_window import AckWindow
from qmq.client.delivery import Pulled
from qmq.client.source import Link
from qmq.errors import CallTimeout, ProtocolError, QmqError
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.commands import AckRequest

ACK_DELAY_SECONDS = 0.01
"""How long an ack waits for more messages to be settled, unless all of an answer are. Slow handlers then cause fewer acks."""
HEARTBEAT_SECONDS = 10.0
"""An ack, if only an empty one, is sent at least this often; otherwise the broker assumes that the consumer has ended."""
ACK_FIRST_SECONDS_MAX = 60.0
"""At most once: the longest time from sending a pull to the ack's confirmation. Brokers' consumer lease must be longer."""


class Acker:
    """Acknowledges settled messages, and reports to the broker that the consumer is running."""

    def __init__(self, link: Link) -> None:
        self.window = AckWindow()
        self.wake = asyncio.Event()
        """Set when messages were settled."""
        self._link = link
        self._context = link.context
        self._last_contact = 0.0
        self._failures = 0
        """Failed acks in a row, at the present master."""

    def moved(self) -> None:
        """The broker group has another master: repeat what failed at once."""
        self._failures = 0
        self.wake.set()

    async def run(self) -> None:
        while True:
            pause = self._context.backoff.pause(self._failures) if self._failures else HEARTBEAT_SECONDS
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self.wake.wait()
            self.wake.clear()
            if self.window.spans and not self.window.is_first_settled:
                await asyncio.sleep(ACK_DELAY_SECONDS)
            master = self._link.route.master
            try:
                is_idle = not await self._ack_range() and not self._failures and self.window.last >= 0
                if is_idle and asyncio.get_running_loop().time() - self._last_contact >= HEARTBEAT_SECONDS - 0.5:
                    await self._send_ack(-1, -1, broadcast=False)
                if self._failures:
                    self._link.recovered()
                self._failures = 0
            except QmqError as error:
                self._failures += 1
                # Requests at a former master end when it is left.
                if self._failures == 1 and master == self._link.route.master:
                    self._link.log_failure("acking", error)
                self._link.failed()

    async def _ack_range(self) -> bool:
        """Ack the finished run, if there is one."""
        closed = self.window.closed_range()
        if closed is None:
            return False
        await self._send_ack(*closed, broadcast=self._link.source.broadcast)
        self.window.acked(closed[1])
        return True

    async def ack_finished(self) -> None:
        while await self._ack_range():
            pass

    async def ack_batch(self, pulled: Pulled, last: int, began: float) -> None:
        """Ack the messages of an answer, and return when the broker has the ack on disk.

        Without that they must not be delivered, because the broker may give them to another consumer. They are then forgotten: the
        next pull gets them again if the broker does not have the ack.

        Args:
            last: the highest pull sequence received before them.
            began: when the pull was sent, in monotonic seconds.

        Raises:
            QmqError: it is unknown whether the ack took effect, or it came so late that the consumer's lease may have ended before:
                the broker confirms acks of messages that it has moved to the retry subject, too.
        """
        try:
            await self._send_ack(pulled.first, pulled.last, broadcast=self._link.source.broadcast)
            took = self._context.clock.monotonic() - began
            if took > ACK_FIRST_SECONDS_MAX:
                raise CallTimeout(
                    f"{len(pulled.marks)} messages were acked {took:.0f} s after their pull, the limit is"
                    f" {ACK_FIRST_SECONDS_MAX:g} s; they are not delivered"
                )
        except BaseException:
            self.window.rewind(last)
            raise
        self.window.acked(pulled.last)

    async def _send_ack(self, begin: int, last: int, *, broadcast: bool) -> None:
        source = self._link.source
        request = AckRequest(source.subject, source.group, source.consumer_id, begin, last, broadcast)
        frame = await self._link.call(Command.ACK_REQUEST, request.encode(), self._context.timeouts.ack)
        if frame.code != ResponseCode.SUCCESS:
            raise ProtocolError(f"{self._link.route.name} returned code {frame.code} to an ack")
        self._last_contact = asyncio.get_running_loop().time()
