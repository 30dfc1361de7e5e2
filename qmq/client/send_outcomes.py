"""What responses to a SEND mean."""

import asyncio
from dataclasses import dataclass, field

from qmq.client.outgoing import Batch
from qmq.errors import SendFailed
from qmq.net.caller import Caller, timed_out
from qmq.protocol.codes import Command, ResponseCode, SendResult
from qmq.protocol.commands import BrokerGroupRoute, SendFailure, decode_send_response
from qmq.protocol.frames import Frame
from qmq.protocol.names import NO_SPACE, is_subject_refusal

_PERMANENT = {SendResult.BLOCK, SendResult.SUBJECT_NOT_ASSIGNED}
"""The broker will never take this message: trying again is of no use."""


def failures_in(
    response: "asyncio.Future[Frame]", route: BrokerGroupRoute, caller: Caller, seconds: float
) -> dict[str, SendFailure]:
    """Failures by message ID; empty when all are stored. Raises QmqError if it is unknown which messages are stored."""
    if response.cancelled():
        raise timed_out(caller.address, Command.SEND_MESSAGE, seconds)
    frame = response.result()
    if frame.code != ResponseCode.SUCCESS:
        raise SendFailed(f"{route.name} returned code {frame.code}")
    return decode_send_response(frame.body) if frame.body else {}


@dataclass(slots=True)
class Classified:
    """The messages of a batch, by their numbers in it, sorted by what became of them."""

    stored: list[int] = field(default_factory=list)
    rejected: dict[int, SendFailed] = field(default_factory=dict)
    """Those that the broker will never take, with their errors."""
    full: list[int] = field(default_factory=list)
    """Those that the broker group has no space for."""
    full_problem: str = ""
    not_stored: list[int] = field(default_factory=list)
    """Those to send again."""
    problem: str = ""
    is_group_fine: bool = True
    """They were rejected because of their subject; the group itself works."""


def classify(batch: Batch, failures: dict[str, SendFailure], group: str) -> Classified:
    """Sort the messages of a batch by the failures that a broker group reported."""
    found = Classified()
    for place, message_id in enumerate(batch.ids):
        failure = failures.get(message_id)
        if failure is None or failure.result == SendResult.MESSAGE_DUPLICATE:
            found.stored.append(place)
        elif failure.result in _PERMANENT:
            text = f"{group} rejected message {message_id}: {failure.remark} (result {failure.result})"
            found.rejected[place] = SendFailed(text, code=_code_of(failure.remark))
        elif failure.remark.startswith(NO_SPACE):
            found.full.append(place)
            found.full_problem = f"{group}: {failure.remark}"
        else:
            found.problem = f"{group}: {failure.remark or 'not stored'} (result {failure.result})"
            found.is_group_fine = found.is_group_fine and is_subject_refusal(failure.remark)
            found.not_stored.append(place)
    return found


def _code_of(remark: str) -> str:
    """The code that a node's remark begins with, if it does."""
    code, colon, _ = remark.partition(": ")
    return code if colon and code.startswith("delay.") else "client.message_refused"
