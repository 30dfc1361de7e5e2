"""Commands of replication: their bytes, and every way in which a body can be wrong."""

from collections.abc import Callable
from dataclasses import replace
from enum import IntEnum
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_node.storage.consume_log import ENTRY_BYTES
from qmq.errors import LocalProtocolError, ProtocolError
from qmq.protocol import frames, limited_kinds
from qmq.protocol.codes import Command, FollowResult, FollowState, ReplicaRole
from qmq.protocol.extensions import PROBLEMS_MAX, SlaveEnd
from qmq.protocol.group_memberships import MEMBERS_MAX, MembershipResponse, MembershipResult
from qmq.protocol.kinds import UNSET, MapKind
from qmq.protocol.primitives import Reader, encode_strmap
from qmq.protocol.reasons import Reason
from qmq.protocol.replication import (
    COMMITS_BYTES_MAX,
    DAMAGED_MAX,
    EPOCHS_MAX,
    INDEX_ENTRY_BYTES,
    READ_COPY_BYTES_MAX,
    SEGMENTS_MAX,
    Commits,
    CommitsHead,
    Confirm,
    FollowRequest,
    FollowResponse,
    ReadCopyResponse,
    StatedTime,
    TimedCommits,
    commits_parts,
)
from qmq.protocol.structures import Structure, fields_of
from qmq.protocol.values import TIME_MS_MAX
from qmq_node.log.epochs import EpochChain
from qmq_node.log.record import COMMIT_BODY_BYTES_MAX, HEADER_BYTES
from tests.support.servers.processes import PROJECT
from tests.unit.qmq.protocol.replication_examples import (
    BODIES,
    MEMBERSHIP,
    NEW_MEMBERSHIP,
    PROMOTION_ID,
    REGISTER,
    REGISTERED,
    VALUES,
)

COMMITS, HEARTBEAT, CONFIRM = VALUES["commits"], VALUES["heartbeat"], VALUES["confirm"]
HEAD = CommitsHead(3, 7, PROMOTION_ID, 4800, 1024, 4900, 4096, 8192, -1)
HEAD_BYTES = 80
COMPLETE = [name for name, value in VALUES.items() if value not in (REGISTER, REGISTERED)]
"""Examples whose bodies may not end before their last field; for the others see `test_node_register`."""


def with_entries(value: Structure, **entries: str | None) -> bytes:
    """The body of a value with these entries of its map; None: without the entry."""
    reader = Reader(value.encode())
    found = {**reader.strmap(), **entries}
    rest = reader.bytes_(reader.remaining)
    return encode_strmap({key: text for key, text in found.items() if text is not None}) + rest


def map_entries(chosen: type[MapKind]) -> list[tuple[str, Any, str, Any]]:
    """Each entry of a kind: the name of an example, its value, the key, the kind."""
    return [
        (name, value, field.key, field.kind)
        for name, value in VALUES.items()
        for field in fields_of(type(value))
        if isinstance(field.kind, chosen)
    ]


def ids(case: Any) -> str | None:
    return case if isinstance(case, str) else ""


# --- the format -----------------------------------------------------------------------------------------------------


def test_the_commands_have_their_numbers() -> None:
    assert [Command(code).name for code in range(217, 224)] == [
        "FOLLOW", "COMMITS", "CONFIRM", "READ_COPY", "CHANGE_IN_SYNC", "RESIGN", "ROLE",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "first", "names"),
    [
        (ReplicaRole, 0, "NONE WAITING SPARE COPYING FOLLOWING IN_SYNC PROMOTED MASTER STEPPING_DOWN FAILED"),
        (
            FollowResult, 0, "ACCEPTED UNKNOWN_GROUP NOT_MASTER NOT_MEMBER UNPROVEN OLDER_EPOCH NEWER_EPOCH OTHER_PROMOTION"
            " END_BEYOND CRC_DIFFERS TOO_FAR_BEHIND BUSY",
        ),
        (FollowState, 1, "COPYING FOLLOWING LEAVING DAMAGED"),
    ],
)  # fmt: skip
def test_numbers_keep_their_meaning(kind: type[IntEnum], first: int, names: str) -> None:
    assert {item.name: int(item) for item in kind} == {name: first + n for n, name in enumerate(names.split())}


@pytest.mark.parametrize("name", VALUES)
def test_bodies_are_read_and_written_byte_for_byte(name: str) -> None:
    value, body = VALUES[name], BODIES[name]
    assert value.encode() == body
    assert type(value).decode(body) == value
    assert type(value).decode(memoryview(bytearray(body))) == value


def test_an_example_of_each_structure_and_of_each_kind_is_there() -> None:
    assert len(BODIES) == len(VALUES)
    assert {type(value).__name__ for value in VALUES.values()} == {
        "GroupMembership", "FollowRequest", "FollowResponse", "Commits", "Confirm", "ReadCopyRequest", "ReadCopyResponse",
        "ChangeInSyncRequest", "ResignRequest", "MembershipResponse", "NodeRegisterRequest", "NodeRegisterResponse",
        "KnownGroupsRequest", "KnownGroupsResponse", "ReadRangeRequest", "ReadRangeResponse",
    }  # fmt: skip


def test_limits_agree_with_those_of_the_log_the_frames_and_the_database() -> None:
    assert COMMITS_BYTES_MAX == COMMIT_BODY_BYTES_MAX + HEADER_BYTES
    assert INDEX_ENTRY_BYTES == ENTRY_BYTES
    assert frames.HEADER_BYTES + HEAD_BYTES + 4 + COMMITS_BYTES_MAX <= frames.FRAME_BYTES_MAX


def test_the_page_explains_each_result_of_a_follow() -> None:
    page = (PROJECT / "docs/reference/wire.md").read_text()
    section = page.partition("\n## 17 ")[2].partition("\n## ")[0]
    assert [result for result in FollowResult if f"\n| {int(result)} {result.name} |" not in section] == []


# --- commits --------------------------------------------------------------------------------------------------------


def test_commits_are_neither_copied_when_they_are_read_nor_when_they_are_written() -> None:
    buffers = [bytearray(b"two whole"), memoryview(b" commits")]
    head, *parts = commits_parts(HEAD, buffers)
    assert len(head) == HEAD_BYTES + 4
    assert all(part is buffer for part, buffer in zip(parts, buffers, strict=True))
    body = memoryview(bytearray(b"".join([head, *parts])))
    assert body == COMMITS.encode()
    found = Commits.decode(body)
    assert found == COMMITS
    assert isinstance(found.commits, memoryview)
    assert found.commits.obj is body.obj


def test_a_copy_is_neither_copied_when_it_is_read_nor_when_it_is_written() -> None:
    data = memoryview(bytearray(b"state"))
    assert ReadCopyResponse(1, 5, data).parts()[-1] is data
    body = memoryview(bytearray(BODIES["copy"]))
    found = ReadCopyResponse.decode(body).data
    assert isinstance(found, memoryview)
    assert found.obj is body.obj


def test_more_commits_than_the_largest_commit_has_are_rejected_on_both_sides() -> None:
    largest = bytes(COMMITS_BYTES_MAX)
    head = replace(HEAD, segment_bytes=0)
    no_entries = bytes(4)
    assert len(Commits.decode(b"".join(commits_parts(head, [largest]))).commits) == COMMITS_BYTES_MAX
    with pytest.raises(LocalProtocolError, match="67108929 bytes of commits, at most 67108928"):
        commits_parts(head, [largest, b"x"])
    with pytest.raises(ProtocolError, match=r"^Commits\.commits: 67108929 bytes of commits, at most 67108928"):
        Commits.decode(head.encode() + no_entries + largest + b"x")
    with pytest.raises(LocalProtocolError, match="4194305 bytes of data, at most 4194304"):
        ReadCopyResponse(0, 1 << 30, bytes(READ_COPY_BYTES_MAX + 1)).encode()
    with pytest.raises(ProtocolError, match=r"^ReadCopyResponse\.data: 4194305 bytes of data, at most 4194304"):
        ReadCopyResponse.decode(ReadCopyResponse(0, 1 << 30, b"").encode() + bytes(READ_COPY_BYTES_MAX + 1))


def test_index_entries_precede_their_commit_and_are_not_copied() -> None:
    value, entries, commit = VALUES["commit with index entries"], bytearray(64), memoryview(bytearray(64))
    _, *parts = commits_parts(HEAD, [commit], [memoryview(entries)[:32], memoryview(entries)[32:]])
    assert [part.obj for part in parts] == [entries, entries, commit.obj]
    body = memoryview(bytearray(BODIES["commit with index entries"]))
    found = Commits.decode(body)
    assert (found.index_entries.obj, found.commits.obj) == (body.obj, body.obj)
    assert (found.index_entries, found.commits) == (value.index_entries, value.commits)


@pytest.mark.parametrize("entry_bytes", [1, 31, 33])
def test_index_entries_are_whole(entry_bytes: int) -> None:
    body = bytearray(VALUES["commit with index entries"].encode())
    body[HEAD_BYTES : HEAD_BYTES + 4] = entry_bytes.to_bytes(4, "big")
    with pytest.raises(
        ProtocolError, match=rf"^Commits\.index_entries: {entry_bytes} bytes of entries, not a multiple of 32"
    ):
        Commits.decode(body)


@pytest.mark.parametrize("size", [-1, 1 << 30])
def test_index_entries_that_are_not_there_are_rejected_by_their_size(size: int) -> None:
    body = bytearray(VALUES["commit with index entries"].encode())
    body[HEAD_BYTES : HEAD_BYTES + 4] = size.to_bytes(4, "big", signed=True)
    with pytest.raises(ProtocolError, match=r"^Commits\.index_entries: "):
        Commits.decode(body)


def test_index_entries_that_a_slave_would_reject_are_left_out() -> None:
    head = replace(HEAD, segment_bytes=0)
    largest = memoryview(bytearray(COMMITS_BYTES_MAX))
    for commits, entries, is_sent in (
        (64, 64, True),
        (64, 96, False),
        (COMMITS_BYTES_MAX - 32, 32, True),
        (COMMITS_BYTES_MAX, 32, False),
    ):
        body = b"".join(commits_parts(head, [largest[:commits]], [bytes(entries)]))
        assert len(body) == HEAD_BYTES + 4 + commits + (entries if is_sent else 0)
        assert len(Commits.decode(body).index_entries) == (entries if is_sent else 0)
    over = head.encode() + (32).to_bytes(4, "big") + bytes(32) + largest
    with pytest.raises(ProtocolError, match=r"^Commits\.index_entries: 32 bytes for 67108928 bytes of commits"):
        Commits.decode(over)


# --- times ---------------------------------------------------------------------------------------------------------


def test_timed_commits_begin_with_the_time_and_are_not_copied() -> None:
    time, buffer = StatedTime(1_600_000_000_000, 86_400_000_000), memoryview(bytearray(b"two whole commits"))
    head, *parts = commits_parts(HEAD, [buffer], (), time)
    assert parts == [buffer]
    assert parts[0] is buffer
    body = b"".join([head, *parts])
    assert body == (1_600_000_000_000).to_bytes(8, "big") + (86_400_000_000).to_bytes(8, "big") + BODIES["commits"]
    assert TimedCommits.decode(body) == TimedCommits(time, COMMITS)
    assert TimedCommits(time, COMMITS).encode() == body
    for end in range(len(body) - len(buffer)):
        with pytest.raises(ProtocolError, match=r"^TimedCommits\.(time: StatedTime|commits: Commits)\."):
            TimedCommits.decode(body[:end])


@pytest.mark.parametrize(
    ("name", "value", "legal"),
    [
        ("time_ms", -1, f"1 to {TIME_MS_MAX}"), ("time_ms", 0, f"1 to {TIME_MS_MAX}"),
        ("time_ms", TIME_MS_MAX + 1, f"1 to {TIME_MS_MAX}"), ("time_ms", 2**63 - 1, f"1 to {TIME_MS_MAX}"),
        ("monotonic_us", -1, "0 or more"), ("monotonic_us", -(2**63), "0 or more"),
    ],
)  # fmt: skip
def test_a_time_out_of_its_range_is_rejected(name: str, value: int, legal: str) -> None:
    numbers = {"time_ms": 1, "monotonic_us": 0} | {name: value}
    body = b"".join(number.to_bytes(8, "big", signed=True) for number in numbers.values()) + BODIES["heartbeat"]
    with pytest.raises(ProtocolError, match=rf"^TimedCommits\.time: StatedTime\.{name}: {value}; must be {legal}"):
        TimedCommits.decode(body)
    with pytest.raises(LocalProtocolError, match=rf"{value}: must be {legal}"):
        commits_parts(HEAD, time=StatedTime(**numbers))


# --- cut ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMPLETE)
def test_a_body_that_is_cut_anywhere_is_rejected_by_name(name: str) -> None:
    value, body = VALUES[name], BODIES[name]
    data = getattr(value, "commits", getattr(value, "data", b""))
    for end in range(len(body) - len(data)):
        with pytest.raises(ProtocolError, match=rf"^{type(value).__name__}[.:]"):
            type(value).decode(body[:end])


def test_the_error_of_a_cut_body_names_the_field() -> None:
    numbers = ("session", "epoch", "synced_end", "crc", "applied_end", "state")
    for name, end in zip(numbers, (0, 15, 23, 27, 35, 36), strict=True):
        with pytest.raises(ProtocolError, match=rf"^Confirm\.{name}: "):
            Confirm.decode(BODIES["confirm"][:end])
    for name, end in (
        ("promotion_id", 31),
        ("high_watermark", 39),
        ("segment_bytes", 71),
        ("lost_from", 79),
        ("index_entries", 83),
    ):
        with pytest.raises(ProtocolError, match=rf"^Commits\.{name}: "):
            Commits.decode(BODIES["commits"][:end])
    with pytest.raises(ProtocolError, match=r"^FollowRequest\.epoch_chain: 3 epochs announced, 47 bytes left"):
        FollowRequest.decode(BODIES["follow"][:-1])
    with pytest.raises(ProtocolError, match=r"^MembershipResponse\.membership: GroupMembership\.in_sync: "):
        MembershipResponse.decode(BODIES["changed"][:-1])


# --- entries of maps ------------------------------------------------------------------------------------------------


def rejected(value: Any, key: str, text: str | None, match: str) -> None:
    """The value with this text as an entry is rejected by the name of the entry."""
    with pytest.raises(ProtocolError, match=match) as caught:
        type(value).decode(with_entries(value, **{key: text}))
    assert str(caught.value).startswith(f"{type(value).__name__}")
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(("name", "value", "key", "kind"), map_entries(limited_kinds.MapRange), ids=ids)
def test_a_number_out_of_its_range_is_rejected(name: str, value: Any, key: str, kind: Any) -> None:
    for text in (str(kind.least - 1), str(kind.most + 1), "many", "1.5", "9" * 400, "9" * 5_000):
        rejected(value, key, text, f"{key} is '?{text[:40]}'?; must be a whole number")
    for number in (kind.least - 1, kind.most + 1):
        with pytest.raises(LocalProtocolError, match=f"{number}: must be"):
            replace(value, **{key: number}).encode()


@pytest.mark.parametrize(("name", "value", "key", "kind"), map_entries(limited_kinds.MapChoice), ids=ids)
def test_a_number_that_an_enumeration_lacks_is_rejected(name: str, value: Any, key: str, kind: Any) -> None:
    for text in ("-1", "99", "x", "9" * 5_000):
        rejected(value, key, text, f"{key} is '?{text[:40]}'?; must be")


@pytest.mark.parametrize(("name", "value", "key", "kind"), map_entries(limited_kinds.MapName), ids=ids)
def test_a_text_that_is_too_long_is_rejected(name: str, value: Any, key: str, kind: Any) -> None:
    most = kind.limit.chars_max
    rejected(value, key, "漢" * (most + 1), f"{key}: '漢*' has {most + 1} characters; must be [01] to {most}")


@pytest.mark.parametrize(("name", "value", "key", "kind"), map_entries(limited_kinds.MapUuid), ids=ids)
def test_what_is_no_uuid_is_rejected(name: str, value: Any, key: str, kind: Any) -> None:
    for text in ("x", PROMOTION_ID.upper(), PROMOTION_ID.replace("-", ""), PROMOTION_ID + "\n", "x" * 9_000):
        rejected(value, key, text, f"{key} is .*; must be a UUID in lower case, or empty")
    with pytest.raises(LocalProtocolError, match="must be a UUID"):
        replace(value, **{key: PROMOTION_ID.upper()}).encode()


@pytest.mark.parametrize(("name", "value", "key", "kind"), map_entries(MapKind), ids=ids)
def test_an_entry_is_there_or_has_a_default(name: str, value: Any, key: str, kind: Any) -> None:
    (field,) = (field for field in fields_of(type(value)) if field.key == key)
    if field.default is UNSET:
        rejected(value, key, None, f"{key}")
        rejected(value, key, "", f"{key}")
    else:
        found = type(value).decode(with_entries(value, **{key: None}))
        assert getattr(found, field.name) == field.default


def test_a_word_that_is_not_known_is_rejected() -> None:
    rejected(VALUES["change"], "change", "swap", "change is 'swap'; must be one of add, remove")
    rejected(
        VALUES["changed"], "result", "perhaps", "result is 'perhaps'; must be one of done, stale, refused, unavailable"
    )


# --- fields at fixed places, and lists ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name", "at"),
    [
        (Commits, "session", 0), (Commits, "epoch", 8), (Commits, "high_watermark", 32), (Commits, "log_begin", 40),
        (Commits, "offset", 48), (Commits, "segment_base", 56), (Commits, "segment_bytes", 64),
        (Confirm, "session", 0), (Confirm, "epoch", 8), (Confirm, "synced_end", 16), (Confirm, "applied_end", 28),
    ],
)  # fmt: skip
def test_a_negative_number_is_rejected(kind: type[Structure], name: str, at: int) -> None:
    value = COMMITS if kind is Commits else CONFIRM
    body = bytearray(value.encode())
    body[at] |= 0x80
    with pytest.raises(ProtocolError, match=rf"^{kind.__name__}\.{name}: -\d+; must be 0 or more"):
        kind.decode(body)
    with pytest.raises(LocalProtocolError, match="-1: must be 0 or more"):
        replace(value, **{name: -1}).encode()


def test_a_confirmation_with_another_state_is_rejected() -> None:
    with pytest.raises(ProtocolError, match=r"^Confirm\.state: 5 is no FollowState"):
        Confirm.decode(BODIES["confirm"][:-1] + b"\x05")
    with pytest.raises(LocalProtocolError, match="4294967296: does not fit u32"):
        replace(CONFIRM, crc=1 << 32).encode()


LISTS: list[tuple[str, str, int, int, int, str]] = [
    ("follow of an empty log", "epoch_chain", 4, 16, EPOCHS_MAX, "epochs"),
    ("rejected", "segments", 8, 16, SEGMENTS_MAX, "segments"),
    ("rejected", "damaged", 4, 16, DAMAGED_MAX, "damaged ranges"),
]
"""Of an example without items: the field, how many bytes its count and what is behind it take, the bytes of an item."""


@pytest.mark.parametrize(("name", "field", "last_bytes", "item_bytes", "most", "what"), LISTS, ids=ids)
def test_a_long_list_is_rejected_by_its_count(
    name: str, field: str, last_bytes: int, item_bytes: int, most: int, what: str
) -> None:
    value = VALUES[name]
    head = value.encode()[:-last_bytes]

    def decode(count: int, items: int) -> None:
        type(value).decode(head + count.to_bytes(4, "big", signed=True) + bytes(items * item_bytes))

    with pytest.raises(ProtocolError, match=rf"\.{field}: {most + 1} {what}, at most {most}"):
        decode(most + 1, most + 1)
    for count in (-1, 1, most, 2**31 - 1, -(2**31)):
        with pytest.raises(ProtocolError, match=rf"\.{field}: {count} {what} announced, 0 bytes left"):
            decode(count, 0)


def test_lists_have_as_many_items_as_their_limit_allows() -> None:
    follow = replace(VALUES["follow"], epoch_chain=tuple((n + 1, 2 * n) for n in range(EPOCHS_MAX)))
    assert FollowRequest.decode(follow.encode()) == follow
    accepted = replace(VALUES["accepted"], segments=tuple((n, 1) for n in range(SEGMENTS_MAX)))
    assert FollowResponse.decode(accepted.encode()) == accepted
    damaged = replace(VALUES["accepted"], damaged=tuple((n, n) for n in range(DAMAGED_MAX)))
    assert FollowResponse.decode(damaged.encode()) == damaged
    members = ("x" * 100, "漢" * 100, "a")
    membership = replace(MEMBERSHIP, members=members, in_sync=members, master="a")
    assert len(members) == MEMBERS_MAX
    assert type(membership).decode(membership.encode()) == membership
    slaves = tuple(SlaveEnd(str(n), n) for n in range(MEMBERS_MAX))
    register = replace(REGISTER, problems=(Reason("p" * 500),) * PROBLEMS_MAX, slaves=slaves)
    assert type(register).decode(register.encode()) == register


@pytest.mark.parametrize(
    ("value", "match"),
    [
        (replace(MEMBERSHIP, members=("g1-a", "b", "c", "d")), r"GroupMembership\.members: 4 members, at most 3"),
        (replace(NEW_MEMBERSHIP, in_sync=("a", "b", "c", "d")), r"GroupMembership\.in_sync: 4 in-sync members, at most 3"),
        (replace(MEMBERSHIP, members=("g1-a", "g1-a")), r"GroupMembership\.members: g1-a is listed twice"),
        (replace(MEMBERSHIP, in_sync=("g1-a", "g1-a")), r"GroupMembership\.in_sync: g1-a is listed twice"),
        (replace(MEMBERSHIP, in_sync=("g1-c",)), r"GroupMembership\.in_sync: g1-c is not a member; members are g1-a, g1-b"),
        (replace(MEMBERSHIP, joining=4), r"GroupMembership\.joining: 4 has bits for more than 2 members"),
        (replace(MEMBERSHIP, master="g1-c"), r"GroupMembership\.master: g1-c is not a member; members are g1-a, g1-b"),
        (
            replace(REGISTER, problems=(Reason("p"),) * (PROBLEMS_MAX + 1)),
            r"NodeRegisterRequest\.problems: 17 problems, at most 16",
        ),
        (
            replace(REGISTER, slaves=(SlaveEnd("b", 1),) * (MEMBERS_MAX + 1)),
            r"NodeRegisterRequest\.slaves: 4 slaves, at most 3",
        ),
        (
            replace(VALUES["follow"], epoch_chain=((1, 0), (1, 10))),
            r"FollowRequest\.epoch_chain: epoch 1 from 10 on is listed behind epoch 1 from 0 on",
        ),
        (
            replace(VALUES["follow"], epoch_chain=((1, 10), (2, 10))),
            r"FollowRequest\.epoch_chain: epoch 2 from 10 on is listed behind epoch 1 from 10 on",
        ),
        (
            replace(VALUES["follow"], epoch_chain=((1, 4900),)),
            r"FollowRequest\.epoch_chain: epoch 1 begins at 4900, and the log ends at 4900",
        ),
        (
            replace(VALUES["accepted"], keep_to=1023),
            r"FollowResponse\.keep_to: 1023 is below the log's begin 1024",
        ),
        (
            replace(VALUES["accepted"], segments=((1024, 3073), (4096, 1))),
            r"FollowResponse\.segments: the segment of 3073 bytes at 1024 overlaps the one at 4096",
        ),
        (replace(COMMITS, offset=4095), r"Commits\.offset: 4095 is below the segment's base 4096"),
        (replace(COMMITS, offset=2**63 - 18, segment_bytes=0), None),
        (
            replace(COMMITS, offset=2**63 - 17, segment_bytes=0),
            r"Commits\.offset: 17 bytes from \d+ on end above 9223372036854775807",
        ),
        (replace(COMMITS, segment_bytes=4900 + 17 - 4096), None),
        (
            replace(COMMITS, segment_bytes=4900 + 16 - 4096),
            r"Commits\.segment_bytes: a segment of 820 bytes at 4096 can't hold commits up to 4917",
        ),
        (replace(COMMITS, index_entries=bytes(32)), r"Commits\.index_entries: 32 bytes for 17 bytes of commits"),
        (replace(COMMITS, index_entries=bytes(32), commits=bytes(31)), r"Commits\.index_entries: 32 bytes for 31 bytes"),
        (replace(COMMITS, index_entries=bytes(32), commits=bytes(32)), None),
        (replace(HEARTBEAT, index_entries=bytes(32)), r"Commits\.index_entries: 32 bytes for 0 bytes of commits"),
        (
            replace(VALUES["read a file"], position=0),
            r"ReadCopyRequest\.file: 'schedule/2026112913\.data' without the position of its checkpoint",
        ),
        (
            replace(VALUES["copy"], total_bytes=4),
            r"ReadCopyResponse\.total_bytes: 4, with 5 bytes of data",
        ),
        (replace(VALUES["commits behind a lost range"], lost_from=4900), None),
        (
            replace(VALUES["commits behind a lost range"], lost_from=4901),
            r"Commits\.lost_from: 4901, with 10 bytes of commits at 4900",
        ),
        (replace(HEARTBEAT, lost_from=0), r"Commits\.lost_from: 0, with 0 bytes of commits at 4950"),
        (replace(VALUES["accepted"], damaged=((7, 6),)), r"FollowResponse\.damaged: a range from 7 to 6"),
    ],
)  # fmt: skip
def test_fields_that_do_not_fit_together_are_rejected(value: Any, match: str | None) -> None:
    body = value.encode()
    if match is None:
        assert type(value).decode(body) == value
        return
    with pytest.raises(ProtocolError, match=rf"^{match}"):
        type(value).decode(body)


def test_a_segment_without_bytes_is_rejected() -> None:
    body = BODIES["rejected"][:-8] + (1).to_bytes(4, "big") + bytes(16)
    with pytest.raises(ProtocolError, match=r"^FollowResponse\.segments: 0; must be 1 or more"):
        FollowResponse.decode(body)


def test_a_membership_is_there_or_not() -> None:
    assert MembershipResponse.decode(BODIES["unavailable"]).membership is None
    with pytest.raises(ProtocolError, match=r"^MembershipResponse\.membership: 2; must be 0 \(none\) or 1"):
        MembershipResponse.decode(BODIES["unavailable"][:-1] + b"\x02")


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=4))
def test_every_chain_that_is_read_is_one_of_a_log(pairs: list[tuple[int, int]]) -> None:
    body = replace(VALUES["follow"], epoch_chain=tuple(pairs)).encode()
    is_chain = all(a < b and c < d for (a, c), (b, d) in pairwise(pairs))
    try:
        found = FollowRequest.decode(body)
    except ProtocolError:
        assert not is_chain
        return
    assert [tuple(entry) for entry in EpochChain.of(found.epoch_chain)] == pairs


# --- texts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "read"),
    [
        (lambda text: MembershipResponse(MembershipResult.REFUSED, text), lambda value: value.reason),
        (lambda text: replace(REGISTER, problems=(text,)), lambda value: value.problems[0]),
    ],
    ids=["entry", "item"],
)
def test_a_text_for_people_is_cut_and_never_prevents_a_report(
    make: Callable[[str], Any], read: Callable[[Any], str]
) -> None:
    for text, expected in (
        ("x" * 501, "x" * 500), ("漢" * 40_000, "漢" * 500), ("", ""), ("bad \udcff.log", "bad \\udcff.log"),
    ):  # fmt: skip
        value = make(text)
        assert read(type(value).decode(value.encode())) == expected


@pytest.mark.parametrize("name", ["", "x" * 101])
def test_a_name_that_no_node_has_is_rejected_on_both_sides(name: str) -> None:
    for value in (replace(MEMBERSHIP, members=("g1-a", name)), replace(MEMBERSHIP, broker_group=name)):
        with pytest.raises(LocalProtocolError, match=f"has {len(name)} characters; must be 1 to 100 characters"):
            value.encode()
    good = replace(NEW_MEMBERSHIP, members=("M" * 100,)).encode()
    bad = good.replace(b"\0\x64" + b"M" * 100, len(name).to_bytes(2, "big") + name.encode())
    with pytest.raises(ProtocolError, match=rf"^GroupMembership\.members: '.*' has {len(name)} characters"):
        type(MEMBERSHIP).decode(bad)


def test_an_upper_case_promotion_id_is_rejected_before_it_is_sent() -> None:
    with pytest.raises(LocalProtocolError, match="must be a UUID in lower case, or empty"):
        replace(COMMITS, promotion_id=PROMOTION_ID.upper()).encode()
