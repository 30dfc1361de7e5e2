"""Decodes pulls and acks of consumers that have sent one before: what never changes in them is decoded and checked once."""

from struct import Struct
from struct import error as StructError
from typing import Any

from qmq.protocol.commands import AckRequest, PullRequest
from qmq.protocol.frames import Frame
from qmq.protocol.names import check_consumer_id, check_group, check_subject

REQUESTS_KNOWN_MAX = 20_000
"""Different pulls and acks remembered; when there are more, all are forgotten and decoded whole again."""
REQUEST_BYTES_MAX = 1024
"""A longer request, with many tags for example, is decoded each time."""
_length = Struct(">H").unpack_from
_PULL = Struct(">iqqqqb")
"""The numbers behind the three names: limit, a constant, pull_begin, pull_last, timeout_ms, broadcast."""
_ACK = Struct(">qq")
_Key = tuple[bytes, bytes, int]


class KnownRequests:
    """Requests by the bytes that are the same in all of a consumer's: the names in front, and what follows the numbers."""

    def __init__(self) -> None:
        self._pulls: dict[_Key | None, tuple[Any, ...]] = {}
        self._acks: dict[_Key | None, tuple[Any, ...]] = {}

    def pull(self, frame: Frame) -> PullRequest:
        """The pull of a frame. Raises ProtocolError if it can't be decoded, or a name is illegal."""
        body = frame.body
        key, at = _key(frame, _PULL.size)
        known = self._pulls.get(key)
        if known is not None:
            limit, _, begin, last, timeout_ms, broadcast = _PULL.unpack_from(body, at)
            subject, group, consumer_id, filters = known
            return PullRequest(subject, group, consumer_id, limit, begin, last, timeout_ms, bool(broadcast), filters)
        request = PullRequest.decode(body, frame.version)
        check_subject(request.subject)
        check_group(request.group)
        check_consumer_id(request.consumer_id)
        names = request.subject, request.group, request.consumer_id
        _remember(self._pulls, key, (*names, request.filters))
        return request

    def ack(self, frame: Frame) -> AckRequest:
        """The ack of a frame. Raises ProtocolError: it can't be decoded."""
        key, at = _key(frame, _ACK.size)
        known = self._acks.get(key)
        if known is not None:
            begin, last = _ACK.unpack_from(frame.body, at)
            subject, group, consumer_id, is_broadcast = known
            return AckRequest(subject, group, consumer_id, begin, last, is_broadcast)
        request = AckRequest.decode(frame.body, frame.version)
        names = request.subject, request.group, request.consumer_id
        _remember(self._acks, key, (*names, request.broadcast))
        return request


def _key(frame: Frame, numbers_bytes: int) -> tuple[_Key | None, int]:
    """What identifies a request, and where its numbers begin; None for one that is not remembered."""
    body, at = frame.body, 0
    if len(body) > REQUEST_BYTES_MAX:
        return None, 0
    try:
        for _ in range(3):
            at += 2 + _length(body, at)[0]
    except StructError:
        return None, 0
    if at + numbers_bytes > len(body):
        return None, 0
    return (bytes(body[:at]), bytes(body[at + numbers_bytes :]), frame.version), at


def _remember(known: dict[_Key | None, tuple[Any, ...]], key: _Key | None, values: tuple[Any, ...]) -> None:
    if key is None:
        return
    if len(known) >= REQUESTS_KNOWN_MAX:
        known.clear()
    known[key] = values
