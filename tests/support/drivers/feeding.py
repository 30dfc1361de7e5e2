"""Frames from bytes that a test holds already."""

from qmq.errors import ProtocolError
from qmq.protocol.frames import Frame, FrameReader


def feed(reader: FrameReader, data: bytes | memoryview) -> list[Frame]:
    """Have a reader take bytes as if they were received, in pieces as large as it has room for. Raises as `buffer_updated`."""
    if reader.error is not None:
        raise reader.error
    frames: list[Frame] = []
    view = memoryview(data)
    while view:
        space = reader.get_buffer()
        size = min(len(space), len(view))
        space[:size] = view[:size]
        view = view[size:]
        try:
            frames += reader.buffer_updated(size)
        except ProtocolError:
            if not frames:
                raise
        if reader.error is not None:
            break
    return frames
