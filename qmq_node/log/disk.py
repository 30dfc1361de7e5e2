"""The one module that touches the file system. Tests put a faulty disk of the same shape in its place."""

import contextlib
import ctypes
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from qmq.private_files import make_private_dir, sync_folder

Buffer = bytes | bytearray | memoryview

_IOV_MAX = 1024
"""Buffers of one pwritev call (Linux takes 1024)."""
WRITE_BYTES_MAX = 1 << 20
"""Bytes of one pwritev call. For more than 2 MiB, ext4 takes huge pages. In a virtual machine whose host takes back free memory,
the host has to provide and clear each of them: such a write took ten times as long for each byte (docs/performance.md)."""
LOCK_FILE = "lock"
"""The file in a folder whose lock is the folder's."""


class File(Protocol):
    """An open file."""

    def pwritev(self, buffers: Sequence[Buffer], offset: int) -> None:
        """Write all bytes at an offset. Raises OSError; then any part of them may have been written."""

    def pread(self, size: int, offset: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""

    def pread_cached(self, size: int, offset: int) -> bytes | bytearray | None:
        """As `pread`, but None when the bytes are not all in memory and the disk would have to be asked."""

    def next_data(self, offset: int) -> int | None:
        """The first place at or after `offset` that may hold something other than zeros; None: only zeros to the end."""

    def datasync(self) -> None:
        """Return when the file's content is on stable storage."""

    def truncate(self, size: int) -> None: ...

    def drop_cached(self, offset: int, size: int) -> None:
        """Drop synced bytes from the page cache, so that the next read comes from the disk."""

    def size(self) -> int: ...

    def close(self) -> None: ...


class Disk(Protocol):
    """The file system as the engine uses it. A new, renamed or removed name is durable after `sync_dir` of its folder."""

    def make_dir(self, path: str) -> None:
        """Make a folder and its parents, durably."""

    def add_dir(self, path: str) -> None:
        """Make a folder and its parents without waiting for the disk: they last when each folder above is synced."""

    def make_private_dir(self, path: str) -> None:
        """Make a folder that only this user can enter, as `qmq.private_files.make_private_dir`."""

    def lock_dir(self, path: str) -> Callable[[], None]:
        """Lock a folder for this process alone; return what unlocks it. Raises BlockingIOError when it is locked already."""

    def list_dir(self, path: str) -> list[str]:
        """Names in a folder, sorted; none when it does not exist."""

    def create(self, path: str, size: int) -> File:
        """Make a file that must not exist, with `size` bytes of space set aside. Raises OSError; no file is left then."""

    def open(self, path: str, *, writable: bool) -> File: ...

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def sync_dir(self, path: str) -> None: ...

    def sync_file_system(self, path: str) -> bool:
        """Return when everything on the file system that holds `path` is on stable storage, names included.

        For very many files at once. False when the system can't: then sync them one by one.
        """

    def space(self, path: str) -> tuple[int, int]:
        """Bytes that this user may still write on the disk that holds `path`, and bytes that it may use in all."""


def _calls(buffers: Sequence[Buffer]) -> Iterator[Sequence[Buffer]]:
    """Yield the buffers of each pwritev call."""
    if len(buffers) <= _IOV_MAX and sum(map(len, buffers)) <= WRITE_BYTES_MAX:
        yield buffers
        return
    part: list[Buffer] = []
    room = WRITE_BYTES_MAX
    for buffer in buffers:
        rest = memoryview(buffer)
        while rest:
            part.append(rest[:room])
            room -= len(part[-1])
            rest = rest[len(part[-1]) :]
            if not room or len(part) == _IOV_MAX:
                yield part
                part, room = [], WRITE_BYTES_MAX
    if part:
        yield part


class SystemFile:
    """A file of the operating system."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd
        # The kernel reads ahead up to 8 MiB for each file that is read in order, and the syncs of commits wait for it. Who reads on
        # says so by the size of a read.
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)

    def pwritev(self, buffers: Sequence[Buffer], offset: int) -> None:
        for part in _calls(buffers):
            size = sum(map(len, part))
            written = os.pwritev(self._fd, part, offset)
            if written < size:
                # A short write is followed by the reason when the rest is tried.
                rest = memoryview(b"".join(part))[written:]
                while rest:
                    done = os.pwrite(self._fd, rest, offset + size - len(rest))
                    if done == 0:
                        raise OSError(errno.EIO, "a write wrote nothing")
                    rest = rest[done:]
            offset += size

    def pread(self, size: int, offset: int) -> bytes:
        data = os.pread(self._fd, size, offset)
        while len(data) < size and (more := os.pread(self._fd, size - len(data), offset + len(data))):
            data += more
        return data

    def pread_cached(self, size: int, offset: int) -> bytes | bytearray | None:
        buffer = bytearray(size)
        try:
            read = os.preadv(self._fd, [buffer], offset, os.RWF_NOWAIT)
        except OSError as error:
            if error.errno == errno.EAGAIN:
                return None
            if error.errno in (errno.EOPNOTSUPP, errno.EINVAL):
                return self.pread(size, offset)
            raise
        return buffer if read == size else None

    def next_data(self, offset: int) -> int | None:
        try:
            return os.lseek(self._fd, offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return None
            if error.errno == errno.EINVAL:
                return offset
            raise

    def datasync(self) -> None:
        os.fdatasync(self._fd)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def drop_cached(self, offset: int, size: int) -> None:
        os.posix_fadvise(self._fd, offset, size, os.POSIX_FADV_DONTNEED)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        # A file dropped from a cache may still be read by another thread: the last reference closes it.
        self.close()


class SystemDisk:
    """The operating system's file system."""

    file_type = SystemFile
    """What `create` and `open` return."""

    def make_dir(self, path: str) -> None:
        missing = []
        while path and not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for folder in reversed(missing):
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, 0o700)
            self.sync_dir(os.path.dirname(folder) or ".")

    def add_dir(self, path: str) -> None:
        os.makedirs(path, mode=0o700, exist_ok=True)

    def make_private_dir(self, path: str) -> None:
        make_private_dir(path)

    def lock_dir(self, path: str) -> Callable[[], None]:
        import fcntl  # the client is imported on systems without it too

        fd = os.open(f"{path}/{LOCK_FILE}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        file = SystemFile(fd)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            file.close()
            raise
        return file.close

    def list_dir(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []

    def create(self, path: str, size: int) -> File:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            if size:
                _set_aside(fd, size)
        except BaseException:
            os.close(fd)
            os.unlink(path)
            raise
        return self.file_type(fd)

    def open(self, path: str, *, writable: bool) -> File:
        return self.file_type(os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC))

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def sync_dir(self, path: str) -> None:
        sync_folder(path)

    def sync_file_system(self, path: str) -> bool:
        syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if syncfs is None:
            return False
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            # Linux reports failed writes here since 5.8.
            if syncfs(fd) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), path)
        finally:
            os.close(fd)
        return True

    def space(self, path: str) -> tuple[int, int]:
        info = os.statvfs(path)
        # Blocks kept for root are not ours.
        blocks = info.f_blocks - info.f_bfree + info.f_bavail
        return info.f_bavail * info.f_frsize, blocks * info.f_frsize


def _set_aside(fd: int, size: int) -> None:
    try:
        os.posix_fallocate(fd, 0, size)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
            raise
        os.ftruncate(fd, size)
