"""Decodes pulls and acks of consumers that have sent one before: what never changes in them is decoded and checked once."""

from struct import Struct
from struct import error as StructError
from sys import intern
from typing import Any

from qmq.protocol.commands import AckRequest, Filter, PullRequest
from qmq.protocol.frames import Frame
from qmq.protocol.names import check_consumer_id, check_group, check_subject

CONSUMERS_KNOWN_MAX = 250_000
"""Consumers of a group on a subject that are remembered, some 300 bytes each; when there are more, all are forgotten."""
ENDINGS_KNOWN_MAX = 1_000
"""Different filters that are remembered; when there are more, all are forgotten."""
REQUEST_BYTES_MAX = 400
"""A longer request, with many tags for example, is decoded each time."""
_length = Struct(">H").unpack_from
_PULL = Struct(">iqqqqb")
"""The numbers behind the three names: limit, a constant, pull_begin, pull_last, timeout_ms, broadcast."""
_ACK = Struct(">qq")
_Ending = tuple[bytes, int]
"""What follows the numbers, and the version of the request."""


class KnownRequests:
    """Requests in three parts: the names in front, by their bytes; numbers; and an ending that most consumers have in common."""

    def __init__(self) -> None:
        self._names: dict[bytes, tuple[str, str, str]] = {}
        """Names that were checked."""
        self._filters: dict[_Ending, tuple[Filter, ...]] = {}
        self._broadcasts: dict[_Ending, bool] = {}

    def pull(self, frame: Frame) -> PullRequest:
        """The pull of a frame. Raises ProtocolError if it can't be decoded, or a name is illegal."""
        body = frame.body
        front, at, ending = _parts(frame, _PULL.size)
        names, filters = self._names.get(front), self._filters.get(ending)
        if names is not None and filters is not None:
            limit, _, begin, last, timeout_ms, broadcast = _PULL.unpack_from(body, at)
            return PullRequest(*names, limit, begin, last, timeout_ms, bool(broadcast), filters)
        request = PullRequest.decode(body, frame.version)
        check_subject(request.subject)
        check_group(request.group)
        check_consumer_id(request.consumer_id)
        if front:
            names = intern(request.subject), intern(request.group), intern(request.consumer_id)
            _remember(self._names, front, names, CONSUMERS_KNOWN_MAX)
            _remember(self._filters, ending, request.filters, ENDINGS_KNOWN_MAX)
        return request

    def ack(self, frame: Frame) -> AckRequest:
        """The ack of a frame. Raises ProtocolError: it can't be decoded."""
        front, at, ending = _parts(frame, _ACK.size)
        names, is_broadcast = self._names.get(front), self._broadcasts.get(ending)
        if names is not None and is_broadcast is not None:
            begin, last = _ACK.unpack_from(frame.body, at)
            return AckRequest(*names, begin, last, is_broadcast)
        request = AckRequest.decode(frame.body, frame.version)
        if front:
            _remember(self._broadcasts, ending, request.broadcast, ENDINGS_KNOWN_MAX)
        return request


def _parts(frame: Frame, numbers_bytes: int) -> tuple[bytes, int, _Ending]:
    """A request's names, where its numbers begin, and its ending; b"" for names that are not remembered."""
    body, at = frame.body, 0
    try:
        for _ in range(3):
            at += 2 + _length(body, at)[0]
    except StructError:
        at = len(body)
    if at + numbers_bytes > len(body) or len(body) > REQUEST_BYTES_MAX:
        return b"", 0, (b"", -1)
    return bytes(body[:at]), at, (bytes(body[at + numbers_bytes :]), frame.version)


def _remember(known: dict[Any, Any], key: bytes | _Ending, value: object, most: int) -> None:
    if len(known) >= most:
        known.clear()
    known[key] = value
