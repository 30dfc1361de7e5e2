"""Files of the operating system."""

import ctypes
import mmap
import os
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from qmq_node.log.disk import WRITE_BYTES_MAX, SystemDisk


def resident(path: str) -> list[int]:
    """The pages of a file that are in the page cache. Asking for them reads none: a read that may not wait starts one."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as pages:
        states = (ctypes.c_ubyte * (len(pages) // mmap.PAGESIZE))()
        start = ctypes.c_char.from_buffer(pages)
        try:
            if libc.mincore(ctypes.byref(start), ctypes.c_size_t(len(pages)), states):
                raise OSError(ctypes.get_errno(), "mincore failed")
        finally:
            del start
    return [page for page, state in enumerate(states) if state & 1]


def test_a_read_brings_nothing_into_memory_but_what_was_asked_for(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    try:
        # Past the page cache: the kernel drops only some of the pages that it is asked to drop while the machine is busy.
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
    except OSError:
        pytest.skip("the temporary folder is on a file system in memory")
    # In place: a direct write that makes a file longer may pass through the page cache.
    os.posix_fallocate(fd, 0, 8 << 20)
    os.fsync(fd)
    with mmap.mmap(-1, 8 << 20) as zeros:
        assert os.pwrite(fd, zeros, 0) == 8 << 20
    os.close(fd)
    if resident(path):
        pytest.skip("the temporary folder is on a file system in memory")
    with closing(SystemDisk().open(path, writable=False)) as file:
        # In order, as a kernel that reads ahead would have it.
        for at in range(0, 1 << 20, 64 << 10):
            assert len(file.pread(64 << 10, at)) == 64 << 10
        assert resident(path) == list(range((1 << 20) // mmap.PAGESIZE))
        assert file.pread_cached(4096, 4096) == bytes(4096)


@pytest.mark.parametrize(
    ("sizes", "calls"),
    [
        ([100, WRITE_BYTES_MAX - 100], [WRITE_BYTES_MAX]),
        ([100, 0, WRITE_BYTES_MAX], [WRITE_BYTES_MAX, 100]),
        ([3 * WRITE_BYTES_MAX - 5, 10], [WRITE_BYTES_MAX] * 3 + [5]),
        ([3] * 1500, [3 * 1024, 3 * 476]),
        ([0], [0]),
    ],
)
def test_a_write_is_made_in_calls_of_limited_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: list[int], calls: list[int]
) -> None:
    path = tmp_path / "file"
    made: list[int] = []

    def pwritev(fd: int, buffers: Sequence[bytes], offset: int, pwritev: Callable[..., int] = os.pwritev) -> int:
        made.append(pwritev(fd, buffers, offset))
        return made[-1]

    monkeypatch.setattr(os, "pwritev", pwritev)
    buffers = [os.urandom(size) for size in sizes]
    with closing(SystemDisk().create(str(path), 0)) as file:
        file.pwritev(buffers, 7)
    assert made == calls
    assert path.read_bytes() == bytes(7) * (sum(sizes) > 0) + b"".join(buffers)


@pytest.mark.parametrize("limit", [1, WRITE_BYTES_MAX - 1])
def test_the_rest_of_a_short_write_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    path = tmp_path / "file"
    monkeypatch.setattr(os, "pwritev", lambda fd, buffers, offset: os.pwrite(fd, b"".join(buffers)[:limit], offset))
    data = os.urandom(2 * WRITE_BYTES_MAX + 100)
    with closing(SystemDisk().create(str(path), 0)) as file:
        file.pwritev([data[:10], data[10:]], 3)
    assert path.read_bytes()[3:] == data
