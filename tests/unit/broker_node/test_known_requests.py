"""A request is decoded the same whether its sender is known or not."""

import itertools

import pytest

from broker_node.delivery import known_requests
from broker_node.delivery.known_requests import KnownRequests
from qmq.errors import IllegalName, ProtocolError
from qmq.protocol.codes import Command, TagType
from qmq.protocol.commands import NO_TAG_FILTER, AckRequest, PullRequest, TagFilter
from qmq.protocol.frames import Frame, FrameReader, request_header

VERSIONS = (7, 8, 9, 10)
NAMES = (("orders", "g", "c"), ("order", "sg", "c"), ("ord", "ers", "é"))
FILTERS = ((), (NO_TAG_FILTER,), (TagFilter(TagType.AND, ("a", "b")),))


def frame_of(code: int, body: bytes, version: int) -> Frame:
    reader = FrameReader()
    data = request_header(code, 0, len(body), version=version) + body
    reader.get_buffer()[: len(data)] = data
    (frame,) = reader.buffer_updated(len(data))
    return frame


def test_pulls_of_known_consumers_are_decoded_as_those_of_unknown_ones() -> None:
    known = KnownRequests()
    requests = [
        PullRequest(*names, limit, begin, begin + 9, timeout_ms, broadcast, filters)
        for names, filters, broadcast in itertools.product(NAMES, FILTERS, (False, True))
        for limit, begin, timeout_ms in ((1, -1, -1), (50, 7, 200), (-3, 1 << 61, 0))
    ]
    for request in requests * 2:
        for version in VERSIONS:
            frame = frame_of(Command.PULL_MESSAGE, request.encode(version), version)
            assert known.pull(frame) == PullRequest.decode(frame.body, version)


def test_acks_of_known_consumers_are_decoded_as_those_of_unknown_ones() -> None:
    known = KnownRequests()
    requests = [
        AckRequest(*names, begin, begin + 3, broadcast)
        for names, begin, broadcast in itertools.product(NAMES, (-1, 0, 1 << 40), (False, True))
    ]
    for request in requests * 2:
        for version in VERSIONS:
            frame = frame_of(Command.ACK_REQUEST, request.encode(version), version)
            assert known.ack(frame) == AckRequest.decode(frame.body, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_that_is_cut_short_is_refused_although_its_consumer_is_known(version: int) -> None:
    known = KnownRequests()
    pull = PullRequest("orders", "g", "c", 50, 0, 9, 200, False, (NO_TAG_FILTER,)).encode(version)
    ack = AckRequest("orders", "g", "c", 0, 9, False).encode(version)
    for code, decode, body in ((Command.PULL_MESSAGE, known.pull, pull), (Command.ACK_REQUEST, known.ack, ack)):
        decode(frame_of(code, body, version))
        for size in range(len(body)):
            with pytest.raises(ProtocolError):
                decode(frame_of(code, body[:size], version))


def test_an_illegal_name_is_refused_each_time() -> None:
    known, version = KnownRequests(), VERSIONS[-1]
    body = PullRequest("or ders", "g", "c", 50, 0, 9, 200, False, ()).encode(version)
    for _ in range(2):
        with pytest.raises(IllegalName):
            known.pull(frame_of(Command.PULL_MESSAGE, body, version))


def test_names_that_only_an_ack_has_are_not_taken_for_checked_ones() -> None:
    known, version = KnownRequests(), VERSIONS[-1]
    known.pull(frame_of(Command.PULL_MESSAGE, PullRequest("o", "g", "c", 1, 0, 9, 0, False).encode(version), version))
    for _ in range(2):
        known.ack(frame_of(Command.ACK_REQUEST, AckRequest("or ders", "g", "c", 0, 9, False).encode(version), version))
    with pytest.raises(IllegalName):
        body = PullRequest("or ders", "g", "c", 1, 0, 9, 0, False).encode(version)
        known.pull(frame_of(Command.PULL_MESSAGE, body, version))


def test_a_limited_number_of_requests_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_requests, "CONSUMERS_KNOWN_MAX", 10)
    monkeypatch.setattr(known_requests, "ENDINGS_KNOWN_MAX", 5)
    known, version = KnownRequests(), VERSIONS[-1]
    for number in range(23):
        tags = (TagFilter(TagType.OR, (f"t{number}",)),)
        request = PullRequest("orders", "g", f"c{number}", 1, 0, 9, 0, False, tags)
        for _ in range(2):
            assert known.pull(frame_of(Command.PULL_MESSAGE, request.encode(version), version)) == request
        assert len(known._names) == number % 10 + 1
        assert len(known._filters) == number % 5 + 1


def test_a_long_request_is_not_remembered() -> None:
    known, version = KnownRequests(), VERSIONS[-1]
    tags = tuple("t" * 100 + str(number) for number in range(known_requests.REQUEST_BYTES_MAX // 100))
    request = PullRequest("orders", "g", "c", 50, 0, 9, 200, False, (TagFilter(TagType.OR, tags),))
    frame = frame_of(Command.PULL_MESSAGE, request.encode(version), version)
    assert known.pull(frame) == request
    assert known._names == known._filters == {}
