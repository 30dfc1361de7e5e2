"""Files of the operating system."""

from contextlib import closing
from pathlib import Path

import pytest

from qmq.log.disk import SystemDisk


def test_a_read_brings_nothing_into_memory_but_what_was_asked_for(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    with closing(SystemDisk().create(path, 0)) as file:
        file.pwritev([bytes(8 << 20)], 0)
        file.datasync()
    with closing(SystemDisk().open(path, writable=False)) as file:
        file.drop_cached(0, 8 << 20)
        if file.pread_cached(4096, 4 << 20) is not None:
            pytest.skip("the temporary folder is on a file system in memory")
        # In order, as a kernel that reads ahead would have it.
        for at in range(0, 1 << 20, 64 << 10):
            assert len(file.pread(64 << 10, at)) == 64 << 10
        assert file.pread_cached(4096, 4096) == bytes(4096)
        assert file.pread_cached(4096, 2 << 20) is None
        assert file.pread_cached(4096, (1 << 20) + 8192) is None
