"""Reads past the page cache: what is on the disk is read, and the cache is left as it was."""

from qmq_node.log.uncached import READ_BYTES, UncachedFile
from tests.support.disks.memory_disk import PAGE_BYTES, MemoryDisk, MemoryFile

SIZE = 3 * READ_BYTES + 100


class CachedFile(MemoryFile):
    """A file that notes which of its pages are in memory."""

    def __init__(self, disk: MemoryDisk, path: str, cached: set[int]) -> None:
        super().__init__(disk, path, disk.names[path])
        self.cached = cached
        self.from_disk: set[int] = set()
        """Pages that were read when they were not in memory."""

    def pread(self, size: int, offset: int) -> bytes:
        pages = pages_of(offset, size)
        self.from_disk |= pages - self.cached
        self.cached |= pages
        return super().pread(size, offset)

    def pread_cached(self, size: int, offset: int) -> bytes | None:
        return bytes(size) if pages_of(offset, size) <= self.cached else None

    def drop_cached(self, offset: int, size: int) -> None:
        # As the kernel: pages that the range covers in part stay.
        self.cached -= set(range(-(-offset // PAGE_BYTES), (offset + size) // PAGE_BYTES))


def pages_of(offset: int, size: int) -> set[int]:
    return set(range(offset // PAGE_BYTES, (offset + size - 1) // PAGE_BYTES + 1))


def made(cached: set[int]) -> tuple[MemoryDisk, CachedFile, bytes]:
    disk = MemoryDisk()
    content = bytes(n * 7 % 251 for n in range(SIZE))
    disk.create("file", 0).pwritev([content], 0)
    return disk, CachedFile(disk, "file", cached), content


def test_all_bytes_come_from_the_disk_and_only_what_was_in_memory_is_there_afterwards() -> None:
    hot = pages_of(READ_BYTES, READ_BYTES)
    _, file, content = made(set(hot))
    assert UncachedFile(file, SIZE).pread(SIZE, 0) == content
    assert file.from_disk == pages_of(0, SIZE)
    assert file.cached - hot <= pages_of(SIZE - 1, 1), "cold bytes stay in memory"
    assert hot <= file.cached, "hot bytes were dropped"


def test_a_range_that_begins_and_ends_within_pages_is_read_from_the_disk_too() -> None:
    _, file, content = made(pages_of(0, SIZE))
    begin, size = PAGE_BYTES + 10, 2 * PAGE_BYTES
    assert UncachedFile(file, SIZE).pread(size, begin) == content[begin : begin + size]
    assert file.from_disk == {1, 2, 3}
    assert file.cached == pages_of(0, SIZE)


def test_nothing_behind_the_end_is_read_and_the_page_of_the_end_stays_in_memory() -> None:
    _, file, content = made(pages_of(0, SIZE))
    end = 2 * PAGE_BYTES + 10
    reader = UncachedFile(file, end)
    assert reader.pread(SIZE, PAGE_BYTES) == content[PAGE_BYTES:end]
    assert file.from_disk == {1}
    assert reader.pread(SIZE, 2 * PAGE_BYTES + 4) == content[2 * PAGE_BYTES + 4 : end]
    assert reader.pread(10, end) == reader.pread(10, end + 1) == b""
    assert file.from_disk == {1}
    assert file.cached == pages_of(0, SIZE)
