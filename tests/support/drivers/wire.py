"""The directions of the wire that only tests need: entries read, answers written."""

from zlib import crc32

from qmq.errors import ProtocolError
from qmq.protocol.frames import Frame, response_header
from qmq.protocol.messages import Message
from qmq.protocol.primitives import I64
from qmq.protocol.raw import RawBytes, RawView, split_raws


def encode_response(request: Frame, code: int, body: bytes | memoryview = b"") -> bytes:
    """A whole answer."""
    return response_header(request, code, len(body)) + body


def decode_entries(body: RawBytes, verify: bool = True) -> list[Message]:
    """The entries of a SEND.

    Raises:
        ProtocolError: the bytes are not entries, or with `verify` a CRC is wrong.
    """
    messages: list[Message] = []
    view = memoryview(body)
    begins, _, ends = split_raws(view, gap=I64.size)
    for begin, end in zip(begins, ends, strict=True):
        if verify and I64.unpack_from(view, begin - I64.size)[0] != crc32(view[begin:end]):
            raise ProtocolError(f"message {len(messages)} has a wrong CRC", code="protocol.bad_crc")
        messages.append(RawView(view, begin, end).message())
    return messages
