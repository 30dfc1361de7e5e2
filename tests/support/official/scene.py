"""What a client exchanges with official nodes, observed from between them: for scenarios that wait for it."""

import asyncio

from qmq.protocol.codes import Command
from qmq.protocol.commands import AckRequest, PullRequest
from qmq.protocol.frames import Frame
from tests.support.official.recording import FIRST_OWN_COMMAND
from tests.support.waiting import eventually_async


class Scene:
    """A metaserver to run a scenario against, and the traffic so far.

    Args:
        settle_seconds: how long a real server needs from a request's arrival until it has taken effect.
    """

    def __init__(self, settle_seconds: float = 0.0) -> None:
        self.url = ""
        self._settle_seconds = settle_seconds
        self._pulls: set[tuple[str, str, str, str]] = set()
        self._answers: list[tuple[str, int, int]] = []
        self._acked: dict[tuple[str, str, str], int] = {}
        self.own_commands: list[tuple[str, int]] = []
        """Own commands that nodes received, with the node."""

    def request_passed(self, node: str, frame: Frame) -> None:
        """The client sent a request."""
        if frame.code == Command.PULL_MESSAGE:
            pull = PullRequest.decode(frame.body, frame.version)
            self._pulls.add((node, pull.subject, pull.group, pull.consumer_id))
        elif frame.code >= FIRST_OWN_COMMAND:
            self.own_commands.append((node, frame.code))

    def answer_passed(self, node: str, request: Frame, frame: Frame) -> None:
        """The node sent an answer."""
        self._answers.append((node, request.code, frame.code))
        if request.code == Command.ACK_REQUEST:
            ack = AckRequest.decode(request.body, request.version)
            if not ack.is_heartbeat:
                key = (ack.subject, ack.group, ack.consumer_id)
                self._acked[key] = self._acked.get(key, 0) + 1 + ack.pull_last - ack.pull_begin

    async def pulls(self, count: int) -> None:
        """Wait until consumers pull from so many places: a place is a node, a subject, a group and a consumer."""
        await eventually_async(lambda: len(self._pulls) >= count, what=f"{count} pulls: {self._pulls}")
        await asyncio.sleep(self._settle_seconds)

    async def answers(self, command: Command, code: int, count: int) -> None:
        """Wait until so many requests were answered with a code."""
        await eventually_async(
            lambda: [answer[1:] for answer in self._answers].count((command, code)) >= count,
            what=f"{count} answers {code} to {command.name}",
        )

    async def acked(self, subject: str, group: str, consumer_id: str, count: int) -> None:
        """Wait until acks of so many messages were answered."""
        key = (subject, group, consumer_id)
        await eventually_async(lambda: self._acked.get(key, 0) >= count, what=f"{count} acks of {key}")
