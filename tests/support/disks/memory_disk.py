"""A disk in memory that remembers what was synced: it can fail, tear, fill up, and say how a power cut may leave it."""

import errno
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from qmq_node.log.disk import Buffer

MUTATIONS = ("write", "sync", "truncate", "create", "rename", "remove", "sync_dir")
PAGE_BYTES = 4096


class SimulatedCrash(BaseException):
    """The process ended here. Not an Exception: nothing may catch it and go on."""


@dataclass(eq=False)
class Inode:
    """A file's bytes: as the process sees them, as the disk holds them for sure, and what lies between."""

    content: bytearray = field(default_factory=bytearray)
    synced: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes]] = field(default_factory=list)
    unwritten: list[tuple[int, int]] = field(default_factory=list)
    """Where the page cache has what a failed sync did not write."""

    def copy(self) -> "Inode":
        """Return an equal one."""
        return Inode(bytearray(self.content), bytearray(self.synced), list(self.pending), list(self.unwritten))

    def sync_failed(self) -> None:
        """What was to be written is in the page cache only, and no later sync writes it."""
        self.unwritten += [(offset, offset + len(data)) for offset, data in self.pending]
        self.pending.clear()

    def drop_unwritten(self) -> None:
        """The page cache forgets what a failed sync has not written: reads return what the disk holds."""
        for begin, end in self.unwritten:
            held = bytes(self.synced[begin:end])
            self.content[begin:end] = held + bytes(end - begin - len(held))
        self.unwritten.clear()
        for offset, data in self.pending:
            self.content[offset : offset + len(data)] = data

    def sync(self) -> None:
        """Make the disk hold what the process sees. Costs what was written since the last call."""
        if len(self.synced) < len(self.content):
            self.synced.extend(bytes(len(self.content) - len(self.synced)))
        for offset, data in self.pending:
            self.synced[offset : offset + len(data)] = data
        self.pending.clear()


class MemoryFile:
    """An open file of a MemoryDisk."""

    def __init__(self, disk: "MemoryDisk", path: str, inode: Inode) -> None:
        self._disk, self._path, self._inode = disk, path, inode

    def pwritev(self, buffers: Sequence[Buffer], offset: int) -> None:
        data = b"".join(buffers)
        self._disk.read_before_write(self._path, offset, len(data), len(self._inode.content))
        self._disk.step("write", self._path, lambda: self._put(data[: len(data) // 2], offset))
        self._disk.mend_pages(self._path, offset, len(data))
        self._put(data, offset)

    def _put(self, data: bytes, offset: int) -> None:
        content = self._inode.content
        if len(content) < offset + len(data):
            content.extend(bytes(offset + len(data) - len(content)))
        content[offset : offset + len(data)] = data
        self._inode.pending.append((offset, data))

    def pread(self, size: int, offset: int) -> bytes:
        self._disk.read(self._path, offset, size)
        return bytes(self._inode.content[offset : offset + size])

    def pread_cached(self, size: int, offset: int) -> bytes | None:
        if not self._disk.is_cached(self._path, offset, size):
            return None
        self._disk.read(self._path, offset, size, waits=False)
        return bytes(self._inode.content[offset : offset + size])

    def next_data(self, offset: int) -> int | None:
        content = self._inode.content
        at = offset
        while at < len(content):
            piece = content[at : at + 4096]
            if piece.count(0) != len(piece):
                return at + next(i for i, byte in enumerate(piece) if byte)
            at += 4096
        return None

    def datasync(self) -> None:
        self._disk.step("sync", self._path)
        if not self._disk.lies_about_sync:
            self._inode.sync()

    def truncate(self, size: int) -> None:
        if size % PAGE_BYTES and size < len(self._inode.content):
            self._disk.check_readable(self._path, size, 1)
        self._disk.step("truncate", self._path)
        content = self._inode.content
        del content[size:]
        content.extend(bytes(size - len(content)))
        # Kept simple: a shortening is taken as durable at once, which every caller's next sync would make it anyway.
        del self._inode.synced[size:]
        self._inode.pending = [(o, d[: max(0, size - o)]) for o, d in self._inode.pending if o < size]

    def drop_cached(self, offset: int, size: int) -> None:
        self._disk.drop_cached(self._path, offset, size)
        self._inode.drop_unwritten()

    def size(self) -> int:
        return len(self._inode.content)

    def close(self) -> None:
        pass


class MemoryDisk:
    """The shape of `qmq_node.log.disk.Disk`.

    `crash_at` ends the process at that mutation (counted from 0), a write half done. `fail` may return an OSError for a
    mutation, `fail_read` for a read of so many bytes at a place of a file. `lies_about_sync` makes syncs do nothing (a deliberate
    breakage for the suite to find). `observe` is called with each mutation, and with each read
    that would wait for a real disk.
    """

    def __init__(self) -> None:
        self.names: dict[str, Inode] = {}
        self.durable_names: dict[str, Inode] = {}
        self._name_ops: list[tuple[str, str, str, Inode | None]] = []
        self.folders: set[str] = set()
        self.durable_folders: set[str] = set()
        self.steps = 0
        self.crash_at: int | None = None
        self.fail: Callable[[str, str], OSError | None] | None = None
        self.fail_read: Callable[[str, int, int], OSError | None] | None = None
        self.observe: Callable[[str, str], None] | None = None
        self.reads = 0
        self.read_errors = 0
        self.unreadable_pages: set[tuple[str, int]] = set()
        """(path, page) of pages that give EIO, also to a write of a part of one, until a write covers the whole page."""
        self.is_worn_out = False
        """Whole-page writes are accepted, but don't mend an unreadable page: it is readable in the page cache only."""
        self._mended_in_cache: set[tuple[str, int]] = set()
        self.cold: set[str] = set()
        self._cached: set[tuple[str, int]] = set()
        self.lies_about_sync = False
        self.capacity_bytes: int | None = None
        self.locked: set[str] = set()
        """Folders; a kill or power cut unlocks them."""

    def step(self, what: str, path: str, half: Callable[[], None] | None = None) -> None:
        """One mutation is about to happen."""
        assert what in MUTATIONS
        number, self.steps = self.steps, self.steps + 1
        if self.observe is not None:
            self.observe(what, path)
        if self.crash_at is not None and number >= self.crash_at:
            if half is not None and number == self.crash_at:
                half()
            raise SimulatedCrash(f"{what} {path}")
        error = self.fail(what, path) if self.fail is not None else None
        if error is not None:
            if half is not None and what != "create":
                half()
            raise error

    def read(self, path: str, offset: int, size: int, *, waits: bool = True) -> None:
        """Bytes are about to be read."""
        self.reads += 1
        if self.observe is not None and waits:
            self.observe("read", path)
        if path in self.cold:
            self._cached.update((path, page) for page in range(offset // 4096, (offset + size - 1) // 4096 + 1))
        error = self.fail_read(path, offset, size) if self.fail_read is not None else None
        if error is not None:
            raise error
        self.check_readable(path, offset, size)

    def break_pages(self, path: str, begin: int, end: int) -> None:
        """Make the pages of a file that hold bytes [begin, end) unreadable."""
        self.unreadable_pages |= _pages(path, begin, end - begin)

    def zero_unreadable_pages(self) -> None:
        """Have zeros in place of unreadable pages: what an operator does who copies the folder to another disk."""
        for path, page in self.unreadable_pages:
            if (inode := self.names.get(path)) is not None:
                for content in (inode.content, inode.synced):
                    begin, end = page * PAGE_BYTES, min((page + 1) * PAGE_BYTES, len(content))
                    content[begin:end] = bytes(max(0, end - begin))
        self.unreadable_pages.clear()

    def check_readable(self, path: str, offset: int, size: int) -> None:
        """Raise EIO when an unreadable page is touched."""
        if self.unreadable_pages and self._broken(path, offset, size):
            self.read_errors += 1
            raise OSError(errno.EIO, "Input/output error", path)

    def _broken(self, path: str, offset: int, size: int) -> set[tuple[str, int]]:
        return _pages(path, offset, size) & self.unreadable_pages - self._mended_in_cache

    def read_before_write(self, path: str, offset: int, size: int, file_bytes: int) -> None:
        """Bytes are about to be written: like a kernel, read pages first that are covered in part."""
        for page in {offset // PAGE_BYTES, (offset + size - 1) // PAGE_BYTES}:
            is_whole = offset <= page * PAGE_BYTES and (page + 1) * PAGE_BYTES <= offset + size
            if not is_whole and page * PAGE_BYTES < file_bytes:
                self.check_readable(path, page * PAGE_BYTES, PAGE_BYTES)

    def mend_pages(self, path: str, offset: int, size: int) -> None:
        """Bytes were written: the pages that they cover whole can be read again."""
        if self.unreadable_pages:
            whole = range(-(-offset // PAGE_BYTES), (offset + size) // PAGE_BYTES)
            mended = {(path, page) for page in whole} & self.unreadable_pages
            if self.is_worn_out:
                self._mended_in_cache |= mended
            else:
                self.unreadable_pages -= mended

    def drop_cached(self, path: str, offset: int, size: int) -> None:
        """The next read of these bytes comes from the disk."""
        self._mended_in_cache -= _pages(path, offset, size)

    def is_cached(self, path: str, offset: int, size: int) -> bool:
        """Whether a read would not wait for the disk."""
        if path not in self.cold:
            return True
        return all((path, page) in self._cached for page in range(offset // 4096, (offset + size - 1) // 4096 + 1))

    def chill(self, folder: str) -> None:
        """Drop the cached bytes of a folder's files: the next read of each page waits for the disk."""
        self.cold = {path for path in self.names if path.startswith(folder)}
        self._cached.clear()

    def clear(self) -> None:
        """Release the bytes of all files; the disk is not used any more."""
        for inode in (*self.names.values(), *self.durable_names.values()):
            inode.content, inode.synced = bytearray(), bytearray()
            inode.pending.clear()
        self.names.clear()
        self.durable_names.clear()

    # --- Disk ------------------------------------------------------------------------------------------------------

    def make_private_dir(self, path: str) -> None:
        self.make_dir(path)

    def lock_dir(self, path: str) -> Callable[[], None]:
        if path in self.locked:
            raise BlockingIOError(errno.EWOULDBLOCK, "locked", path)
        self.locked.add(path)
        return lambda: self.locked.discard(path)

    def make_dir(self, path: str) -> None:
        while path and path not in self.durable_folders:
            self.folders.add(path)
            self.durable_folders.add(path)
            path = path.rpartition("/")[0]

    def add_dir(self, path: str) -> None:
        if path and path not in self.folders:
            self.add_dir(path.rpartition("/")[0])
            self.step("create", path)
            self.folders.add(path)
            self._name_ops.append(("make_dir", path, "", None))

    def list_dir(self, path: str) -> list[str]:
        prefix = path + "/"
        every = [*self.names, *self.folders]
        return sorted({name[len(prefix) :].split("/")[0] for name in every if name.startswith(prefix)})

    def create(self, path: str, size: int) -> MemoryFile:
        if path in self.names:
            raise FileExistsError(errno.EEXIST, "exists", path)
        if self.capacity_bytes is not None and self.used_bytes + size > self.capacity_bytes:
            raise OSError(errno.ENOSPC, "no space", path)
        self.step("create", path, lambda: self._add_file(path, size // 2))
        return MemoryFile(self, path, self._add_file(path, size))

    def _add_file(self, path: str, size: int) -> Inode:
        inode = self.names[path] = Inode(bytearray(size))
        self._name_ops.append(("create", path, "", inode))
        return inode

    def open(self, path: str, *, writable: bool) -> MemoryFile:
        if path not in self.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return MemoryFile(self, path, self.names[path])

    def rename(self, old: str, new: str) -> None:
        self.step("rename", old)
        self.names[new] = self.names.pop(old)
        self._name_ops.append(("rename", old, new, None))

    def remove(self, path: str) -> None:
        if path not in self.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        self.step("remove", path)
        del self.names[path]
        self._name_ops.append(("remove", path, "", None))

    def sync_dir(self, path: str) -> None:
        self.step("sync_dir", path)
        if self.lies_about_sync:
            return
        keep = []
        for op in self._name_ops:
            if op[1].rpartition("/")[0] == path:
                _apply_name(self.durable_names, self.durable_folders, op)
            else:
                keep.append(op)
        self._name_ops = keep

    def sync_file_system(self, path: str) -> bool:
        self.step("sync", path)
        if not self.lies_about_sync:
            for inode in self.names.values():
                inode.sync()
            self.durable_names = dict(self.names)
            self.durable_folders = set(self.folders)
            self._name_ops.clear()
        return True

    @property
    def used_bytes(self) -> int:
        return sum(len(inode.content) for inode in self.names.values())

    def space(self, path: str) -> tuple[int, int]:
        total = self.capacity_bytes or 1 << 40
        return total - self.used_bytes, total

    # --- after a crash ---------------------------------------------------------------------------------------------

    def after_kill(self) -> "MemoryDisk":
        """What the next process finds after kill -9: everything written, synced or not."""
        return self._with({path: bytes(inode.content) for path, inode in self.names.items()}, self.folders)

    def after_process_end(self) -> "MemoryDisk":
        """As `after_kill`, but what was not synced is in the page cache only: a power cut may still take it."""
        disk = self._empty()
        inodes = {inode: inode.copy() for inode in (*self.names.values(), *self.durable_names.values())}
        disk.names = {path: inodes[inode] for path, inode in self.names.items()}
        disk.durable_names = {path: inodes[inode] for path, inode in self.durable_names.items()}
        # A name whose file was removed again before a sync needs no file of its own.
        disk._name_ops = [(*op[:3], inodes.get(op[3]) if op[3] is not None else None) for op in self._name_ops]
        disk.folders, disk.durable_folders = set(self.folders), set(self.durable_folders)
        disk.capacity_bytes, disk.unreadable_pages = self.capacity_bytes, set(self.unreadable_pages)
        return disk

    def after_power_cut(self, rng: random.Random | None = None) -> "MemoryDisk":
        """What it may find after a power cut: all that was synced, and of the rest some: names up to some point, writes with
        at most two left out and at most one torn at a sector or page. Without `rng`: nothing that was not synced."""
        names, folders = dict(self.durable_names), set(self.durable_folders)
        if rng is not None:
            for op in self._name_ops[: rng.randint(0, len(self._name_ops))]:
                _apply_name(names, folders, op)
        lost = [folder + "/" for folder in self.folders - folders]
        contents = {}
        for path, inode in names.items():
            if any(path.startswith(folder) for folder in lost):
                continue
            content = bytearray(inode.synced)
            if rng is not None:
                _apply_some(content, inode.pending, len(inode.content), rng)
            contents[path] = bytes(content)
        return self._with(contents, folders)

    def crash_states(self, count: int, seed: int) -> Iterator["MemoryDisk"]:
        """Legal states after a power cut at this moment: the bare synced one, everything, and random ones between."""
        yield self.after_power_cut()
        yield self.after_kill()
        rng = random.Random(seed)
        for _ in range(count):
            yield self.after_power_cut(rng)

    def _with(self, contents: dict[str, bytes], folders: set[str]) -> "MemoryDisk":
        disk = self._empty()
        # A folder in a lost one is lost with it.
        lost = tuple(folder + "/" for folder in self.folders - folders)
        disk.folders = {folder for folder in folders if not folder.startswith(lost)}
        disk.durable_folders = set(disk.folders)
        disk.capacity_bytes = self.capacity_bytes
        disk.unreadable_pages = set(self.unreadable_pages)
        for path, content in contents.items():
            inode = Inode(bytearray(content), bytearray(content))
            disk.names[path] = disk.durable_names[path] = inode
        return disk

    def _empty(self) -> "MemoryDisk":
        """A disk of the same kind, for what a crash leaves."""
        return MemoryDisk()


def _pages(path: str, offset: int, size: int) -> set[tuple[str, int]]:
    return {(path, page) for page in range(offset // PAGE_BYTES, (offset + max(1, size) - 1) // PAGE_BYTES + 1)}


def _apply_name(names: dict[str, Inode], folders: set[str], op: tuple[str, str, str, Inode | None]) -> None:
    what, path, new, inode = op
    if what == "make_dir":
        folders.add(path)
    elif what == "create" and inode is not None:
        names[path] = inode
    elif what == "rename" and path in names:
        names[new] = names.pop(path)
    elif what == "remove":
        names.pop(path, None)


def _apply_some(content: bytearray, pending: list[tuple[int, bytes]], size: int, rng: random.Random) -> None:
    dropped = set(rng.sample(range(len(pending)), min(len(pending), rng.randint(0, 2))))
    torn = rng.randrange(len(pending)) if pending and rng.random() < 0.5 else -1
    if pending and rng.random() < 0.9:
        content.extend(bytes(max(0, size - len(content))))
    for i, (offset, data) in enumerate(pending):
        if i in dropped:
            continue
        if i == torn:
            unit = rng.choice((512, 4096))
            # Whole sectors or pages of the write arrive, in any combination.
            pieces = [(at, data[at : at + unit]) for at in range(0, len(data), unit)]
            chosen = [piece for piece in pieces if rng.random() < 0.5]
        else:
            chosen = [(0, data)]
        for at, piece in chosen:
            end = offset + at + len(piece)
            if len(content) < end:
                content.extend(bytes(end - len(content)))
            content[offset + at : end] = piece
