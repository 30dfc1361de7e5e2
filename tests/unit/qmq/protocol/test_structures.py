"""One encoder and decoder for all declared bodies: what is written is read, and what does not fit is refused."""

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Annotated, Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qmq.errors import LocalProtocolError, ProtocolError
from qmq.protocol import commands, kinds
from qmq.protocol import limited_kinds as limited
from qmq.protocol import structures as s
from qmq.protocol.bulk_read import SchedulePage
from qmq.protocol.codes import CURRENT_VERSION, Command
from qmq.protocol.delayed import DelayedItem, DelayedState
from qmq.protocol.extensions import Refusal
from qmq.protocol.group_memberships import GroupMembership
from qmq.protocol.messages import Message, encode_raw
from qmq.protocol.primitives import encode_strmap
from qmq.protocol.replication import (
    Commits,
    FollowRequest,
    FollowResponse,
    ReadCopyRequest,
    ReadCopyResponse,
    ReadRangeRequest,
    ReadRangeResponse,
    TimedCommits,
)
from tests.support.generated.command_table import COMMANDS, reachable

STRUCTURES = reachable(
    (Refusal, *(kind for info in COMMANDS.values() for kind in (info.request, info.response)), TimedCommits)
)
text = st.text("abcdé,.=:%漢", max_size=8)
RAW = encode_raw(Message("orders", "m1", {"a": "b"}))


def values(kind: Any) -> st.SearchStrategy[Any]:
    """What a field of a kind may hold."""
    if isinstance(kind, s.ByVersion):
        return values(kind.at(CURRENT_VERSION))
    if isinstance(kind, commands._AnyFilter):
        return st.one_of(instances(commands.TagFilter), instances(commands.SubEnvFilter))
    if isinstance(kind, kinds.Choice):
        return st.sampled_from([int(item.value) for item in kind.known])
    if isinstance(kind, limited.Ranged | limited.MapRange):
        return st.integers(kind.least, kind.most)
    if isinstance(kind, limited.MapChoice):
        return st.sampled_from(kind.known)
    if isinstance(kind, limited.Name | limited.MapName):
        return st.text("abcdé,.=:%漢", min_size=not kind.limit.may_be_empty, max_size=8)
    if isinstance(kind, limited.Uuid | limited.MapUuid):
        return st.just("") | st.uuids().map(str)
    if isinstance(kind, s.Maybe):
        return st.none() | values(kind.item)
    if isinstance(kind, kinds.Rest):
        return st.binary(max_size=40)
    if isinstance(kind, kinds.Number):
        bits = 8 * kind.layout.size
        if kind.code == "?" or isinstance(kind, commands._Online):
            return st.booleans()
        return (
            st.integers(0, 2**bits - 1) if kind.code.isupper() else st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        )
    if isinstance(kind, kinds.Block):
        return st.integers(0, 2).flatmap(lambda n: st.binary(min_size=(size := n * kind.entry_bytes), max_size=size))
    if isinstance(kind, s.Nested):
        return instances(kind.kind)
    if isinstance(kind, s.Row):
        return st.tuples(*map(values, kind.kinds))
    if isinstance(kind, s.Counted | s.UntilEnd):
        return st.lists(values(kind.item), max_size=3).map(tuple)
    if isinstance(kind, kinds.MapWord):
        return st.sampled_from(list(kind.known))
    found: dict[type, st.SearchStrategy[Any]] = {
        kinds.String: text,
        kinds.MapText: text,
        kinds.MapInt: st.integers(-1, 1 << 62),
        kinds.MapFloat: st.floats(allow_nan=False),
        kinds.MapFlag: st.booleans(),
        kinds.MapWords: st.lists(st.sampled_from(["pending", "lost"]), max_size=3).map(tuple),
        kinds.MapPrefix: st.dictionaries(text, text, max_size=3),
        commands._MapByte: st.integers(-128, 127),
    }
    incarnations = st.sampled_from(["", "0123456789abcdef", "ffffffffffffffff"])
    if isinstance(kind, limited.MapIncarnation):
        return incarnations
    if isinstance(kind, limited.MapIncarnations):
        return st.lists(incarnations, max_size=3).filter(any).map(tuple)
    if isinstance(kind, limited.MapAddresses):
        return st.lists(st.sampled_from(["", "10.0.0.1:20882", "[::1]:1"]), max_size=3).filter(any).map(tuple)
    if isinstance(kind, kinds.MapHex):
        return st.binary(min_size=kind.size, max_size=kind.size)
    return found[type(kind)]


def instances(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a structure."""
    if kind is DelayedItem:
        return st.builds(DelayedItem, st.integers(0, 99), st.sampled_from(DelayedState), st.just(RAW))
    if kind is SchedulePage:
        return st.integers(0, 2).map(lambda n: SchedulePage(9, 1, bytes(32 * n), bytes(n), bytes(4 * n), b"raw"))
    drawn = {one.name: values(one.kind) for one in s.fields_of(kind) if not one.is_constant}
    return st.builds(kind, **drawn).map(consistent)


def consistent(value: Any) -> Any:
    """The value with fields that fit together, where drawn ones need not: see `Structure.check`."""
    if isinstance(value, GroupMembership):
        members = tuple(dict.fromkeys(value.members))
        incarnations, addresses = value.incarnations[: len(members)], value.sync_addresses[: len(members)]
        joining = value.joining & ((1 << len(members)) - 1)
        return replace(
            value,
            members=members,
            in_sync=members[1:],
            master=members[0] if members else "",
            joining=joining,
            incarnations=incarnations if any(incarnations) else (),
            sync_addresses=addresses if any(addresses) else (),
        )
    if isinstance(value, FollowRequest):
        numbers = sorted({number for pair in value.epoch_chain for number in pair} - {limited.I64_MAX})
        return replace(value, epoch_chain=tuple((number, number) for number in numbers), end=limited.I64_MAX)
    if isinstance(value, FollowResponse):
        bases = sorted({base % (1 << 62) for base, _ in value.segments})
        segments = tuple((base, end - base) for base, end in pairwise([*bases, limited.I64_MAX]))
        damaged = tuple((min(pair), max(pair)) for pair in value.damaged)
        return replace(value, begin=min(value.begin, value.keep_to), segments=segments, damaged=damaged)
    if isinstance(value, Commits):
        base = value.segment_base % (1 << 62)
        size = value.segment_bytes and 1 << 20
        commits = bytes(max(len(value.commits), len(value.index_entries)))
        lost_from = min(value.lost_from, base) if commits else -1
        return replace(value, offset=base, segment_base=base, segment_bytes=size, commits=commits, lost_from=lost_from)
    if isinstance(value, ReadCopyRequest):
        return replace(value, position=value.position or 1)
    if isinstance(value, ReadRangeRequest):
        begin, end = sorted((value.begin % (1 << 62), value.end % (1 << 62)))
        return replace(value, begin=begin, end=end + 1)
    if isinstance(value, ReadRangeResponse):
        begin = value.begin % (1 << 62)
        data, base = bytes(value.data) or b"!", min(value.segment_base, begin)
        return replace(value, begin=begin, segment_base=base, segment_bytes=value.segment_bytes and 1 << 62, data=data)
    if isinstance(value, ReadCopyResponse):
        return replace(value, total_bytes=max(value.total_bytes, len(value.data)))
    return value


@pytest.mark.parametrize("kind", STRUCTURES)
@settings(max_examples=30)
@given(data=st.data())
def test_what_is_written_is_read(kind: Any, data: st.DataObject) -> None:
    value = data.draw(instances(kind))
    body = value.encode()
    assert b"".join(value.parts()) == body
    assert kind.decode(body) == value
    assert kind.decode(memoryview(bytearray(body))) == value


@pytest.mark.parametrize("kind", STRUCTURES)
@settings(max_examples=30)
@given(data=st.data())
def test_what_is_cut_short_is_refused_or_reads_as_less(kind: Any, data: st.DataObject) -> None:
    value = data.draw(instances(kind))
    body = value.encode()
    try:
        found = kind.decode(body[: data.draw(st.integers(0, max(0, len(body) - 1)))])
    except ProtocolError:
        return
    # An empty answer to a pull, and fields that older versions do not send, read as their defaults.
    assert not body or len(found.encode()) < len(body) or kind is commands.PullResponse or found == value


@pytest.mark.parametrize("kind", STRUCTURES)
@settings(max_examples=30)
@given(body=st.binary(max_size=200))
def test_rubbish_is_refused_with_our_error(kind: Any, body: bytes) -> None:
    try:
        kind.decode(body)
    except ProtocolError:
        return


def test_the_table_has_every_command_once_and_in_order() -> None:
    assert list(COMMANDS) == list(Command)
    assert sorted(COMMANDS) == list(COMMANDS)


def test_every_structure_of_the_package_belongs_to_a_command() -> None:
    def below(kind: type[s.Structure]) -> set[type[s.Structure]]:
        return {kind}.union(*map(below, kind.__subclasses__()))

    # A slotted dataclass replaces the class that it decorates; the replaced one has no layout of its own.
    mine = {kind.__name__ for kind in below(s.Structure) if kind.__module__.startswith("qmq.protocol.")}
    assert mine - {kind.__name__ for kind in STRUCTURES} == {"Structure", "EntriesPage", "CommitsHead"}


@dataclass(frozen=True, slots=True)
class Sample(s.Structure):
    """Something of everything."""

    key: kinds.Text = field(default="", kw_only=True)
    limit: kinds.Int = 50
    count: Annotated[int, kinds.MapInt("n", missing=-1)] = 7
    note: Annotated[str, kinds.MapText(is_optional=True)] = ""
    first: ClassVar[kinds.I16Field] = 258
    number: kinds.I8Field = 1
    names: Annotated[tuple[str, ...], s.Counted("B", kinds.String(), "names", most=2)] = ()
    late: Annotated[bool, s.ByVersion({9: kinds.Number("?")})] = False


def test_the_order_on_the_wire_is_that_of_the_declaration_with_the_map_first() -> None:
    body = Sample(5, number=2, names=("x",), late=True, key="k").encode()
    entries = encode_strmap({"key": "k", "limit": "5", "n": "7"})
    assert body == entries + b"\x01\x02" + b"\x02" + b"\x01\x00\x01x" + b"\x01"
    assert Sample.decode(body) == Sample(5, number=2, names=("x",), late=True, key="k")


def test_a_map_may_lack_entries_and_have_unknown_ones() -> None:
    rest = b"\0\0\x01\0\0"
    assert Sample.decode(encode_strmap({"limit": "", "new": "x"}) + rest) == Sample(count=-1)
    assert Sample.decode(encode_strmap({"note": "x"}) + rest).note == "x"
    with pytest.raises(ProtocolError, match="limit is 'many'; must be a whole number"):
        Sample.decode(encode_strmap({"limit": "many"}) + rest)


def test_a_field_of_a_later_version_is_neither_written_nor_read_in_earlier_ones() -> None:
    new, old = Sample(late=True).encode(9), Sample(late=True).encode(8)
    assert new == old + b"\x01"
    assert (Sample.decode(old, 8).late, Sample.decode(new, 32_000).late) == (False, True)
    with pytest.raises(ProtocolError):
        Sample.decode(old, 9)


def test_versions_of_frames_make_no_more_layouts_than_are_known() -> None:
    body = commands.AckRequest("t", "g", "c", 0, 1, True).encode()
    before = len(s._LAYOUTS)
    for version in (*range(CURRENT_VERSION, 300), 32_767):
        commands.AckRequest.decode(body, version)
    for version in range(-300, 0):
        commands.AckRequest.decode(body[:-1], version)
    assert len(s._LAYOUTS) <= before + 2


def test_counts_are_bounded_before_anything_is_read() -> None:
    head = encode_strmap({}) + b"\0\0\x01"
    with pytest.raises(ProtocolError, match="255 names announced, 4 bytes left"):
        Sample.decode(head + b"\xff" + bytes(4))
    with pytest.raises(ProtocolError, match="3 names, at most 2"):
        Sample.decode(head + b"\x03" + bytes(7))


def test_what_the_wire_can_not_carry_is_refused_when_it_is_written() -> None:
    with pytest.raises(LocalProtocolError, match="300: does not fit i8"):
        Sample(number=300).encode()
    with pytest.raises(LocalProtocolError, match="9223372036854775808: does not fit i64"):
        commands.AckRequest("t", "g", "c", 0, 1 << 63).encode()
    with pytest.raises(LocalProtocolError, match="256 parts are more than 1 bytes can count"):
        Sample(names=("x",) * 256).encode()
    with pytest.raises(LocalProtocolError, match="32767"):
        Sample(key="x" * 32_768).encode()


@dataclass(frozen=True, slots=True)
class Tail(s.Structure):
    """Limited bytes up to the end."""

    data: Annotated[bytes | memoryview, kinds.Rest("bytes of data", 3)]


def test_the_rest_of_a_body_is_bounded() -> None:
    data = memoryview(bytearray(3))
    assert Tail(data).parts()[0] is data
    assert Tail.decode(bytes(3)) == Tail(data)
    with pytest.raises(ProtocolError, match=r"^Tail\.data: 4 bytes of data, at most 3"):
        Tail.decode(bytes(4))
    with pytest.raises(LocalProtocolError, match="4 bytes of data, at most 3"):
        Tail(bytes(4)).encode()


def test_an_error_names_the_structure_and_the_field() -> None:
    pull = commands.PullRequest("t", "g", "c", 1, -1, -1, 0, False, (commands.NO_TAG_FILTER,)).encode()
    fields = [
        "subject",
        "group",
        "consumer_id",
        "limit",
        "offset",
        "pull_begin",
        "pull_last",
        "timeout_ms",
        "broadcast",
    ]
    begins = [0, 3, 6, 9, 13, 21, 29, 37, 45]
    for name, begin, end in zip(fields, begins, [*begins[1:], 46], strict=True):
        for cut in range(begin, end):
            with pytest.raises(ProtocolError, match=rf"^PullRequest\.{name}: "):
                commands.PullRequest.decode(pull[:cut])
    with pytest.raises(ProtocolError, match=r"^PullRequest\.filters: TagFilter\.tags: 5 tags announced, 0 bytes left"):
        commands.PullRequest.decode(pull[:-1] + b"\x05")
    with pytest.raises(ProtocolError, match=r"^Sample: limit is 'many'"):
        Sample.decode(encode_strmap({"limit": "many"}))
    with pytest.raises(ProtocolError, match=r"^Sample: the body ends at byte 1"):
        Sample.decode(b"\0")


def test_bytes_behind_the_last_field_are_ignored_but_in_pulls_and_acks() -> None:
    assert Refusal.decode(Refusal("a", "b").encode() + b"later") == Refusal("a", "b")
    for request in (
        commands.PullRequest("t", "g", "c", 1, -1, -1, 0, False),
        commands.AckRequest("t", "g", "c", 0, 1, False),
    ):
        with pytest.raises(ProtocolError, match="1 bytes behind the end"):
            type(request).decode(request.encode() + b"x")


def test_blocks_are_neither_copied_when_read_nor_in_parts() -> None:
    data = memoryview(bytearray(32))
    page = SchedulePage(1, 0, data, b"\0")
    assert any(part is data for part in page.parts())
    body = memoryview(bytearray(page.encode()))
    found = SchedulePage.decode(body).entries
    assert isinstance(found, memoryview)
    assert found.obj is body.obj


def test_the_head_of_a_pulls_answer_is_as_declared() -> None:
    assert commands.PullResponse(7, memoryview(b"raw")).encode() == commands.PULL_RESPONSE_HEAD.pack(7, -1) + b"raw"
