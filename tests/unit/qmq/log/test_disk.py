"""Files of the operating system."""

import mmap
import os
from contextlib import closing
from pathlib import Path

import pytest

from qmq.log.disk import SystemDisk


def test_a_read_brings_nothing_into_memory_but_what_was_asked_for(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    try:
        # Past the page cache: the kernel drops only some of the pages that it is asked to drop while the machine is busy.
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
    except OSError:
        pytest.skip("the temporary folder is on a file system in memory")
    with mmap.mmap(-1, 8 << 20) as zeros:
        assert os.pwrite(fd, zeros, 0) == 8 << 20
    os.close(fd)
    with closing(SystemDisk().open(path, writable=False)) as file:
        if file.pread_cached(4096, 4 << 20) is not None:
            pytest.skip("the temporary folder is on a file system in memory")
        # In order, as a kernel that reads ahead would have it.
        for at in range(0, 1 << 20, 64 << 10):
            assert len(file.pread(64 << 10, at)) == 64 << 10
        assert file.pread_cached(4096, 4096) == bytes(4096)
        # Asking brings them in: each place is asked for once.
        assert file.pread_cached(4096, 2 << 20) is None
        assert file.pread_cached(4096, (1 << 20) + 8192) is None
