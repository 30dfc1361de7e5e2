"""class UnsyncedDisk: the file system without syncs, for nodes whose data ends with the test."""

from qmq_node.log.disk import File, SystemDisk, SystemFile


class _UnsyncedFile(SystemFile):
    """A file whose `datasync` returns immediately."""

    __slots__ = ()

    def datasync(self) -> None:
        pass


class UnsyncedDisk(SystemDisk):
    """The operating system's file system, which is never asked to write to stable storage or to reserve space."""

    file_type = _UnsyncedFile

    def create(self, path: str, size: int) -> File:
        file = super().create(path, 0)
        # A log's first segment has 64 MiB: where temporary files are in memory, reserving them takes longer than all else.
        file.truncate(size)
        return file

    def sync_dir(self, path: str) -> None:
        pass

    def sync_file_system(self, path: str) -> bool:
        return True
