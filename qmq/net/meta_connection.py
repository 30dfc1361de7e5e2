"""class MetaConnection: a client's connection to one of its metaservers."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence

from qmq.errors import CallTimeout, ConnectionLost
from qmq.net.caller import Caller
from qmq.net.discovery import all_lost, find_metaserver
from qmq.protocol.codes import Command
from qmq.protocol.frames import Frame

CONNECT_SECONDS = 2.0
"""Time limit for opening a connection to one of several metaservers."""
ANSWER_SECONDS = 2.0
"""A metaserver that has sent nothing for so long after a request is pinged, and left when it does not answer the ping within as
long. It holds back the answer to a registration that no broker group can serve yet, but never that to a ping."""
PING_SECONDS = 5.0
"""How often a metaserver that holds back answers is pinged."""

logger = logging.getLogger("qmq.client")


class LastGood:
    """The metaservers of a client, the one that was used last first."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = tuple(urls)
        self._first = 0

    def __str__(self) -> str:
        return ", ".join(self._urls)

    def __len__(self) -> int:
        return len(self._urls)

    def candidates(self) -> Iterator[str]:
        """Each metaserver once. The one at which the caller stops is the first of the next round."""
        first, count = self._first, len(self._urls)
        for index in (*range(first, count), *range(first)):
            self._first = index
            yield self._urls[index]
        self._first = first

    def skip(self) -> None:
        """Begin the next round with the metaserver that follows in the list."""
        self._first = (self._first + 1) % len(self._urls)


class MetaConnection:
    """Connects to one metaserver, and to the next one in the list when that fails or stops answering.

    A single metaserver is not pinged: there is no other one to use.
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        on_push: Callable[[Frame], None],
        on_lost: Callable[[], None],
        connect_seconds: float,
    ) -> None:
        self.urls = LastGood(urls)
        self._on_push = on_push
        self._on_lost = on_lost
        self._connect_seconds = connect_seconds if len(urls) == 1 else min(connect_seconds, CONNECT_SECONDS)
        self._caller: Caller | None = None
        self._used = ""
        self._ping_at: float | None = None
        """When the metaserver is pinged unless it sends something until then; None: no request is unanswered."""

    @property
    def is_open(self) -> bool:
        return self._caller is not None and not self._caller.is_closed

    async def open(self) -> None:
        """Connect to the metaserver used last, or else to the others in turn. Raises ConnectionLost when none can be reached."""
        problems = []
        for url in self.urls.candidates():
            try:
                host, port = await find_metaserver(url)
                caller = Caller(
                    host, port, on_push=self._received, on_lost=self._on_lost, connect_seconds=self._connect_seconds
                )
                await caller.connect()
            except ConnectionLost as error:
                problems.append(error)
                continue
            self._caller, self._ping_at = caller, None
            if self._used not in ("", url):
                logger.info("using metaserver %s instead of %s", url, self._used)
            self._used = url
            return
        raise all_lost(problems)

    def send(self, frame: bytes) -> None:
        """Send a request that the metaserver answers by a push. Raises ConnectionLost without a connection."""
        if self._caller is None:
            raise ConnectionLost("not connected to a metaserver")
        self._caller.send_frame(frame)
        if self._ping_at is None:
            self._ping_at = asyncio.get_running_loop().time() + ANSWER_SECONDS

    async def check(self) -> None:
        """Ping a metaserver that leaves a request unanswered. Raises ConnectionLost, and closes the connection, when it is silent.

        To be called about once a second.
        """
        now = asyncio.get_running_loop().time()
        if self._caller is None or len(self.urls) == 1 or self._ping_at is None or now < self._ping_at:
            return
        try:
            await self._caller.call(Command.HEARTBEAT, timeout_s=ANSWER_SECONDS)
        except CallTimeout as error:
            self.urls.skip()
            await self.close()
            raise ConnectionLost(f"metaserver {self._used} does not respond") from error
        self._ping_at = asyncio.get_running_loop().time() + PING_SECONDS

    async def close(self) -> None:
        caller, self._caller = self._caller, None
        if caller is not None:
            await caller.close()

    def _received(self, frame: Frame) -> None:
        self._ping_at = None
        self._on_push(frame)
