"""Encoded messages: the same bytes as by way of a Message; ids; limits of what is cached."""

import os
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmq.client import encoder as encoder_module
from qmq.client.bodies import Body
from qmq.client.encoder import Encoder
from qmq.client.message import MessageIds, build_message, new_message_id
from qmq.errors import IllegalName, LocalProtocolError
from qmq.protocol.messages import encode_entry
from tests.support.drivers.wire import decode_entries
from tests.support.manual_clock import ManualClock

NAMES = st.text("abcüß", min_size=1, max_size=5)
VALUES = st.one_of(st.text(max_size=40), st.integers(), st.booleans(), st.floats())


@given(
    st.one_of(st.text(max_size=200), st.dictionaries(NAMES, VALUES, max_size=4)),
    st.lists(st.text("tag", min_size=1, max_size=4), max_size=10),
    st.one_of(st.none(), st.text("id.0", min_size=1, max_size=100)),
    st.lists(st.integers(0, 2), min_size=1, max_size=4),
)
def test_an_encoded_message_has_the_bytes_of_the_message(
    body: Body, tags: list[str], message_id: str | None, steps: list[int]
) -> None:
    clock = ManualClock()
    encoder = Encoder("shop", clock, lambda: "made")
    for step in steps:
        clock.advance(step / 1000)
        found, entry = encoder.encode("orders", body, tags, message_id)
        assert found == message_id or (message_id is None and found == "made")
        message = build_message("orders", body, tuple(tags), found, "shop", clock.wall_ms())
        assert entry == encode_entry(message)
        decoded = decode_entries(entry)
        assert [one.properties for one in decoded] == [message.properties]


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (("a b", "x", (), None), IllegalName, "a b"),
        (("orders", "x", ("",), None), LocalProtocolError, "none empty"),
        (("orders", "x", ["t"] * 11, None), LocalProtocolError, "at most 10"),
        (("orders", "x", (), ""), LocalProtocolError, "empty"),
        (("orders", "x", (), "i" * 101), LocalProtocolError, "101 characters"),
        (("orders", {"k": "\ud800"}, (), None), LocalProtocolError, "UTF-8"),
        (("orders", "\ud800", (), None), LocalProtocolError, "UTF-8"),
        (("orders", {"k" * 32768: "v"}, (), None), LocalProtocolError, "32768"),
        (("orders", {"k": "v" * 32768}, (), None), LocalProtocolError, "32768"),
    ],
)
def test_what_can_not_be_sent_is_refused_and_the_next_message_is_encoded(
    arguments: tuple[str, Body, list[str], str | None], error: type[Exception], text: str
) -> None:
    encoder = Encoder("", ManualClock(), lambda: "made")
    with pytest.raises(error, match=text):
        encoder.encode(*arguments)
    assert decode_entries(encoder.encode("orders", "x", (), None)[1])[0].properties["data"] == "x"


def test_names_beyond_the_limit_of_the_cache_are_encoded_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder_module, "CACHED_NAMES_MAX", 3)
    encoder = Encoder("", ManualClock(), lambda: "made")
    for number in range(10):
        (message,) = decode_entries(encoder.encode(f"s{number}", {f"k{number}": "v"}, (), None)[1])
        assert (message.subject, message.properties[f"k{number}"]) == (f"s{number}", "v")
        assert len(encoder._subjects) <= 3
        assert len(encoder._names) <= 3


def test_ids_begin_with_the_second_and_have_the_origin_of_their_process() -> None:
    clock = ManualClock()
    origins = iter(["host.1", "host.2"])
    make_id = MessageIds(clock, lambda: next(origins))
    first = [make_id() for _ in range(3)]
    second = datetime.fromtimestamp(clock.wall_ms() // 1000, UTC)
    assert first == [f"{second:%y%m%d.%H%M%S}.host.1.{number}" for number in range(3)]
    clock.advance(1.0)
    assert make_id().endswith(".host.1.3")
    make_id.change_origin()  # in a child process
    assert make_id().endswith(".host.2.4")


def test_ids_of_thousands_of_processes_with_one_address_number_and_second_differ(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Containers: each process is number 1 and has the same address; many start in the same second, or fork from one parent."""
    monkeypatch.setattr("os.getpid", lambda: 1)
    monkeypatch.setattr("socket.gethostbyname", lambda name: "127.0.0.1")
    clock = ManualClock()
    started = [MessageIds(clock) for _ in range(2_048)]
    ids = [make_id() for make_id in started for _ in range(3)]
    for make_id in started:
        make_id.change_origin()
        # A child continues with its parent's counter, and so does the parent.
        ids += [make_id() for _ in range(3)]
    assert len(set(ids)) == len(ids) == 4_096 * 3
    assert max(map(len, ids)) < 40


def test_a_forked_child_makes_other_ids_than_its_parent() -> None:
    new_message_id()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, "\n".join(new_message_id() for _ in range(10)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as text:
        of_child = text.read().split()
    os.waitpid(child, 0)
    origins = {message_id.split(".")[2] for message_id in of_child}
    assert len(of_child) == 10
    assert len(origins) == 1
    assert new_message_id().split(".")[2] not in origins
