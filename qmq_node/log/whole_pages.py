"""Writes of whole pages: before a part of a page is written, the kernel reads it, which may fail."""

from collections.abc import Sequence

from qmq_node.log.disk import WRITE_BYTES_MAX, Buffer, File
from qmq_node.log.unreadable_pages import PAGE_BYTES, is_read_error


def write_whole_pages(file: File, data: Sequence[Buffer], offset: int) -> None:
    """Write from the begin of a page on, without reading what the last page holds; nothing in use lies behind `data`.

    A kill between write and truncation leaves zeros behind the last byte. Raises OSError.
    """
    end = offset + sum(map(len, data))
    spare = -end % PAGE_BYTES
    file.pwritev([*data, bytes(spare)], offset)
    if spare:
        file.truncate(end)


def write_in_place(file: File, data: memoryview, offset: int) -> None:
    """Write to a place inside a file, of which the disk may not be able to read pages. Raises OSError.

    Pages are written whole, as far as `data` fills them. If the last one can't be read, nothing in it is whole: its rest becomes
    zeros.
    """
    end = offset + len(data)
    rest = -end % PAGE_BYTES
    if rest and _readable(file, PAGE_BYTES, end - end % PAGE_BYTES) is None:
        data = memoryview(bytes(data) + bytes(min(rest, file.size() - end)))
    while data:
        size = min(len(data), WRITE_BYTES_MAX - offset % PAGE_BYTES)
        file.pwritev([data[:size]], offset)
        offset, data = offset + size, data[size:]


def end_file(file: File, data: Sequence[Buffer], offset: int, error: OSError) -> int:
    """End the file with `data` at `offset`, after an error of doing so because pages can't be read that it fills in part.

    Those pages are written whole. Returns how many bytes before `offset` are lost, because they can't be read: they become zeros.
    Raises OSError: `error` if the pages can be read, or the error of writing.
    """
    begin, end = offset // PAGE_BYTES * PAGE_BYTES, offset + sum(map(len, data))
    before = _readable(file, offset - begin, begin)
    if not is_read_error(error) or (
        before is not None and _readable(file, PAGE_BYTES, end // PAGE_BYTES * PAGE_BYTES) is not None
    ):
        raise error
    write_whole_pages(file, [bytes(offset - begin) if before is None else before, *data], begin)
    return offset - begin if before is None else 0


def _readable(file: File, size: int, offset: int) -> bytes | None:
    """Bytes of one page; None: the disk can't read it."""
    try:
        return file.pread(size, offset).ljust(size, b"\0") if size else b""
    except OSError as error:
        if is_read_error(error):
            return None
        raise
