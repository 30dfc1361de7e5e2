"""Frames: a 24-byte header and a body. A stream of bytes is cut into frames without copying bodies.

i32 total (bytes that follow) · i16 header size (18) · i32 magic · i16 code · i16 version · i32 opaque · i32 flag ·
i16 request code · body
"""

from dataclasses import dataclass, field
from struct import Struct

from qmq.errors import ProtocolError
from qmq.protocol.codes import CURRENT_VERSION
from qmq.protocol.receive_buffers import ReceiveBuffers

MAGIC = 0xDEC10ADE
HEADER_BYTES = 24
MESSAGE_BYTES_MAX = 8 << 20
"""Default limit of one message. RocketMQ's default is 4 MiB, Pulsar's 5 MiB; a QMQ server has none."""
FRAME_BYTES_MAX = 256 << 20
"""Default limit of a whole frame. The official producer sends 30 messages at a time, whatever their size, and cannot be asked for
smaller batches: a frame holds 30 of the largest messages."""

FRAME_TOO_LARGE = "protocol.frame_too_large"

FLAG_RESPONSE = 1
FLAG_ONE_WAY = 2

_HEADER = Struct(">ihIhhiih")
_HEADER_SIZE_FIELD = 18
_TOTAL_MIN = 2 + _HEADER_SIZE_FIELD

BUFFER_BYTES_FIRST = 64 << 10
"""A connection's first receive buffer: most connections never need more."""
BUFFER_BYTES = 256 << 10
"""Later receive buffers of a busy connection, as large as what asyncio reads at once."""
BUSY_READ_BYTES = 4 << 10
"""A connection is busy when its reads brought at least this much on average; a quiet one keeps to small buffers."""
BUFFER_BYTES_MOST = 2 << 20
"""On a connection that has sent large frames, later buffers are made for a few of them at once, up to this."""
FREE_BYTES_MIN = 4 << 10
"""A buffer with less room than this is left for a new one."""
GROWTH = 8
"""A frame's buffer may be this many times what has come of the frame."""
assert _HEADER.size == HEADER_BYTES


@dataclass(slots=True)
class Frame:
    """One frame. `body` is a view into the receive buffer: it stays valid as long as it is referenced."""

    code: int
    version: int
    opaque: int
    flag: int
    request_code: int
    body: memoryview
    buffer: bytearray = field(repr=False)
    """What `body` is a view into, from `body_at` on: for readers that are faster on bytes than on views."""
    body_at: int
    unanswered_bytes: int = 0
    """Of a request: what a server's connection counts for it until it is answered."""
    held_bytes: int = 0
    """Of its answer while it waits for the disk, as above."""

    @property
    def is_response(self) -> bool:
        return bool(self.flag & FLAG_RESPONSE)


def encode_request(
    code: int, opaque: int, body: bytes | memoryview = b"", *, flag: int = 0, request_code: int | None = None
) -> bytes:
    """A request frame of CURRENT_VERSION; `request_code` defaults to `code`, as the official client writes it."""
    return request_header(code, opaque, len(body), flag=flag, request_code=request_code) + body


def request_header(
    code: int,
    opaque: int,
    body_bytes: int,
    *,
    version: int = CURRENT_VERSION,
    flag: int = 0,
    request_code: int | None = None,
) -> bytes:
    """The header of a request frame, for a body that is written behind it."""
    total = _TOTAL_MIN + body_bytes
    return _HEADER.pack(
        total, _HEADER_SIZE_FIELD, MAGIC, code, version, opaque, flag, code if request_code is None else request_code
    )


def response_header(request: Frame, code: int, body_bytes: int) -> bytes:
    """The header of the answer to `request`: its version, opaque and code come back."""
    return _HEADER.pack(
        _TOTAL_MIN + body_bytes,
        _HEADER_SIZE_FIELD,
        MAGIC,
        code,
        request.version,
        request.opaque,
        FLAG_RESPONSE,
        request.code,
    )


@dataclass(eq=False, repr=False, slots=True)
class FrameReader:
    """The receiving side of a connection: bytes in, frames out; for `asyncio.BufferedProtocol`.

    Frame bodies are views of our buffer, whose bytes are not written again while there is one; when it is used up another one is
    taken. A buffer grows with what has arrived, so a header with a wrong length costs nothing. A bad header raises at once, unless
    good frames came before it in the same bytes: then these are returned, and the next call raises.
    """

    _frame_bytes_max: int = FRAME_BYTES_MAX
    _buffers: ReceiveBuffers | None = None
    """Keeps used buffers, to use them again."""
    _buffer: bytearray = field(default_factory=lambda: bytearray(BUFFER_BYTES_FIRST))
    _view: memoryview = field(init=False)
    _begin: int = 0
    _end: int = 0
    _largest: int = 0
    _reads: int = 0
    _read_bytes: int = 0
    unfinished_bytes: int = 0
    """Size of the frame that is not complete yet, as its header says; 0 until its header is complete."""
    error: ProtocolError | None = None
    """Why nothing more can be read, once a header was bad."""
    refused_opaque: int | None = None
    """Opaque of the answer that was larger than the limit, when that is the error."""

    def __post_init__(self) -> None:
        self._view = memoryview(self._buffer)

    @property
    def pending_bytes(self) -> int:
        """Bytes of a frame that is not whole yet."""
        return self._end - self._begin

    def get_buffer(self) -> memoryview:
        """Where the next bytes go; never empty."""
        return self._view[self._end :]

    def buffer_updated(self, size: int) -> list[Frame]:
        """`size` bytes were written into the buffer; the frames that are whole now. Raises ProtocolError, as every later call."""
        if self.error is not None:
            raise self.error
        self._end += size
        self._reads += 1
        self._read_bytes += size
        frames: list[Frame] = []
        view, at, end = self._view, self._begin, self._end
        needed = 0
        while end - at >= HEADER_BYTES:
            total, header_size, magic, code, version, opaque, flag, request_code = _HEADER.unpack_from(view, at)
            if (
                magic != MAGIC
                or header_size != _HEADER_SIZE_FIELD
                or not _TOTAL_MIN <= total <= self._frame_bytes_max - 4
            ):
                self.error = _header_error(total, header_size, magic, self._frame_bytes_max)
                if self.error.code == FRAME_TOO_LARGE and flag & FLAG_RESPONSE:
                    self.refused_opaque = opaque
                break
            needed = total + 4
            if end - at < needed:
                break
            body_at = at + HEADER_BYTES
            body = view[body_at : at + needed]
            frames.append(Frame(code, version, opaque, flag, request_code, body, self._buffer, body_at))
            if needed > self._largest:
                self._largest = needed
            at += needed
            needed = 0
        self._begin = at
        self.unfinished_bytes = needed
        if self.error is not None:
            if not frames:
                raise self.error
            return frames
        self._make_room(needed or HEADER_BYTES)
        return frames

    def _make_room(self, needed: int) -> None:
        """Make room for the rest of the unfinished frame at `_begin`, of `needed` bytes in all."""
        pending = self._end - self._begin
        capacity = len(self._buffer)
        buffers = self._buffers
        # Another buffer costs little then, so the frame moves before most of it has come.
        moves = buffers is not None and self._begin > 0 and needed > capacity - self._begin
        if capacity - self._end >= FREE_BYTES_MIN and not moves:
            return
        usual = BUFFER_BYTES if self._read_bytes >= BUSY_READ_BYTES * self._reads else BUFFER_BYTES_FIRST
        # A multiple of what has come, and never more than the frame needs beyond the usual buffer. The room behind a
        # frame that fits keeps its last bytes from asking for another buffer, and for a copy of all before them.
        most = BUFFER_BYTES_MOST if buffers is None else buffers.buffer_bytes
        size = max(usual, min(needed + FREE_BYTES_MIN, GROWTH * pending), min(4 * self._largest, most))
        self._reads = self._read_bytes = 0
        fresh = bytearray(size) if buffers is None else buffers.take(size)
        fresh[:pending] = self._view[self._begin : self._end]
        if buffers is not None:
            buffers.keep(self._buffer)
        self._buffer, self._view = fresh, memoryview(fresh)
        self._begin, self._end = 0, pending


def _header_error(total: int, header_size: int, magic: int, frame_bytes_max: int) -> ProtocolError:
    if magic != MAGIC:
        return ProtocolError(f"magic {magic:#010x} instead of {MAGIC:#010x}", code="protocol.wrong_magic")
    if header_size != _HEADER_SIZE_FIELD:
        return ProtocolError(
            f"header size {header_size}, always {_HEADER_SIZE_FIELD} in this protocol",
            code="protocol.wrong_header_size",
        )
    if total < _TOTAL_MIN:
        return ProtocolError(f"total length {total}, at least {_TOTAL_MIN}", code="protocol.frame_too_short")
    return ProtocolError(
        f"a frame of {total + 4} bytes, the limit is {frame_bytes_max} (frame_bytes_max)",
        code=FRAME_TOO_LARGE,
    )
