"""class UnsyncedDisk: the file system without syncs, for nodes whose data ends with the test."""

from collections.abc import Sequence

from qmq_node.log.disk import Buffer, File, SystemDisk


class UnsyncedDisk(SystemDisk):
    """The operating system's file system, which is never asked to write to stable storage or to reserve space."""

    def create(self, path: str, size: int) -> File:
        file = super().create(path, 0)
        # A log's first segment has 64 MiB: where temporary files are in memory, reserving them takes longer than all else.
        file.truncate(size)
        return _UnsyncedFile(file)

    def open(self, path: str, *, writable: bool) -> File:
        return _UnsyncedFile(super().open(path, writable=writable))

    def sync_dir(self, path: str) -> None:
        pass

    def sync_file_system(self, path: str) -> bool:
        return True


class _UnsyncedFile:
    """A file whose `datasync` returns immediately."""

    __slots__ = ("_file",)

    def __init__(self, file: File) -> None:
        self._file = file

    def pwritev(self, buffers: Sequence[Buffer], offset: int) -> None:
        self._file.pwritev(buffers, offset)

    def pread(self, size: int, offset: int) -> bytes:
        return self._file.pread(size, offset)

    def pread_cached(self, size: int, offset: int) -> bytes | bytearray | None:
        return self._file.pread_cached(size, offset)

    def next_data(self, offset: int) -> int | None:
        return self._file.next_data(offset)

    def datasync(self) -> None:
        pass

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def drop_cached(self, offset: int, size: int) -> None:
        self._file.drop_cached(offset, size)

    def size(self) -> int:
        return self._file.size()

    def close(self) -> None:
        self._file.close()
