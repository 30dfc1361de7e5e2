"""Commit headers and record envelopes: bytes to values and back. Pure. The format's page is the package docstring."""

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError

from qmq.checksum import crc32
from qmq.errors import LogError

COMMIT_MAGIC = 0x514D5143  # "QMQC"
COMMIT_FORMAT = 1
FIRST_EPOCH = 1
"""Epoch of a log that was never replicated, or whose group had no promotion yet."""
_HEAD = Struct(">IHHqqqIIIqQ")
_BODY_BYTES = Struct(">32xI")
_CRC = Struct(">I")
HEADER_BYTES = _HEAD.size + _CRC.size
assert HEADER_BYTES == 64, "the format never changes"
RECORD = Struct(">IB3x")
RECORD_BYTES = RECORD.size
MAGIC_BYTES = COMMIT_MAGIC.to_bytes(4, "big")

COMMIT_BODY_BYTES_MAX = 64 << 20
"""A header that claims more is not believed."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where a commit begins, and the CRC it must name as its predecessor's."""

    offset: int
    chain: int


BEGINNING = Position(0, 0)
"""Of a log of which nothing was removed."""
UNKNOWN_CHAIN = -1
"""As a position's chain: whatever the next commit names is taken."""


@dataclass(frozen=True, slots=True)
class CommitHeader:
    """What stands before a commit's records. Offsets and sizes in bytes."""

    segment_base: int
    epoch: int
    offset: int
    body_bytes: int
    record_count: int
    previous_crc: int
    synced_to: int
    crc: int
    format: int

    @property
    def end(self) -> int:
        return self.offset + HEADER_BYTES + self.body_bytes


def encode_header(
    *, segment_base: int, epoch: int, offset: int, body_bytes: int, record_count: int, previous_crc: int, synced_to: int
) -> bytes:
    """The header without its CRC, which covers it and the body: see `seal_header`."""
    return _HEAD.pack(
        COMMIT_MAGIC,
        COMMIT_FORMAT,
        0,
        segment_base,
        epoch,
        offset,
        body_bytes,
        record_count,
        previous_crc,
        synced_to,
        0,
    )


def encode_crc(crc: int) -> bytes:
    """The header's last field."""
    return _CRC.pack(crc)


def decode_header(data: bytes | memoryview, offset: int, segment_base: int) -> CommitHeader | None:
    """The header at log offset `offset` of a segment, when the bytes can be one; `is_whole` checks its CRC and format."""
    if len(data) < HEADER_BYTES:
        return None
    magic, form, flags, base, epoch, at, body_bytes, count, previous, synced_to, reserved = _HEAD.unpack_from(data)
    if magic != COMMIT_MAGIC or base != segment_base or at != offset or flags or reserved:
        return None
    if body_bytes > COMMIT_BODY_BYTES_MAX:
        return None
    crc = _CRC.unpack_from(data, _HEAD.size)[0]
    return CommitHeader(base, epoch, at, body_bytes, count, previous, synced_to, crc, form)


def claimed_bytes(data: bytes | memoryview) -> int:
    """Return the size of the commit at the beginning of `data`, at least HEADER_BYTES, as its header has it. Nothing is checked."""
    return HEADER_BYTES + int(_BODY_BYTES.unpack_from(data)[0])


def commit_crc(head: bytes | memoryview, *body: bytes | bytearray | memoryview) -> int:
    """CRC of a header without its CRC field, and the body."""
    crc = crc32(head)
    for part in body:
        crc = crc32(part, crc)
    return crc


def is_whole(header: CommitHeader, data: bytes | memoryview) -> bool:
    """Whether the bytes of a commit (header and body) match its CRC, which is the same in all formats.

    Raises:
        LogError: they do, and their format is another one: a newer version wrote them. If they do not, the format is damaged
            like the rest.
    """
    view = memoryview(data)
    if len(view) != HEADER_BYTES + header.body_bytes or header.crc != commit_crc(
        view[: _HEAD.size], view[HEADER_BYTES:]
    ):
        return False
    if header.format != COMMIT_FORMAT:
        raise LogError(
            f"the commit at log offset {header.offset} has format {header.format}, this version reads {COMMIT_FORMAT}",
            code="log.format_unknown",
        )
    return True


EPOCH_KIND = 255
"""Kind of the record with which a promoted master begins its epoch. The package that uses the log defines all other kinds."""
_EPOCH_HEAD = Struct(">q")


def encode_epoch(epoch: int, promotion_id: str) -> bytes:
    """Return the payload of the record that begins an epoch."""
    return _EPOCH_HEAD.pack(epoch) + promotion_id.encode()


def decode_epoch(payload: bytes | memoryview) -> tuple[int, str]:
    """Return epoch and promotion ID. Raises LogError for a payload that is neither."""
    try:
        return _EPOCH_HEAD.unpack_from(payload)[0], str(payload[_EPOCH_HEAD.size :], "utf-8")
    except (StructError, UnicodeDecodeError) as error:
        raise LogError(f"the record that begins an epoch can't be read: {error}") from error


def iter_records(body: memoryview, body_offset: int) -> Iterator[tuple[int, int, memoryview]]:
    """The records of a commit's body: (log offset of the payload, kind, payload).

    Raises LogError when the envelopes do not fill the body; with a good CRC that is an error of the writer.
    """
    at, end = 0, len(body)
    while at < end:
        if end - at < RECORD_BYTES:
            raise LogError(f"{end - at} bytes behind the last record at log offset {body_offset + at}")
        size, kind = RECORD.unpack_from(body, at)
        at += RECORD_BYTES
        if size > end - at:
            raise LogError(
                f"the record at log offset {body_offset + at} claims {size} bytes, its commit has {end - at}"
            )
        yield body_offset + at, kind, body[at : at + size]
        at += size
