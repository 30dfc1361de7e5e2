"""Zeroing a part of a file, without writing where there are zeros already."""

from collections.abc import Iterator

from qmq_node.log.disk import File

_ZEROS = bytes(1 << 20)


def zero(file: File, begin: int, end: int) -> int:
    """Write zeros over [begin, end) of a file, as far as it holds something else, and return how many bytes it held.

    They are durable after the file's next sync.
    """
    found = 0
    for at, piece in data_in(file, begin, end):
        file.pwritev([_ZEROS[: len(piece)]], at)
        found += len(piece.rstrip(b"\0"))
    return found


def data_in(file: File, begin: int, end: int) -> Iterator[tuple[int, bytes]]:
    """The pieces of [begin, end) of a file that hold more than zeros, with their places."""
    at = file.next_data(begin)
    while at is not None and at < end:
        piece = file.pread(min(len(_ZEROS), end - at), at)
        if not piece:
            return
        if piece.count(0) != len(piece):
            yield at, piece
        at = file.next_data(at + len(piece))
