"""`fill_page_cache`: memory as on a server that has run for a while."""

import os
from pathlib import Path

FREE_BYTES = 1 << 30
"""The page cache is full with less free memory than this."""
READ_BYTES = 16 << 20


def fill_page_cache(folder: Path) -> None:
    """Fill free memory with the pages of a file without content, which the kernel takes again when a node writes.

    The host of a virtual machine may take back free memory. It then has to provide each page that is written first, which can cost
    ten times what the node does with it, and this share differs from run to run. On a server that has run for a while, pages are
    taken from older files.
    """
    path = folder / f"page-cache-{os.urandom(4).hex()}"
    with path.open("wb", buffering=0) as file:
        os.truncate(file.fileno(), memory("MemTotal"))
    with path.open("rb", buffering=0) as file:
        buffer = bytearray(READ_BYTES)
        while memory("MemFree") > FREE_BYTES and file.readinto(buffer):
            pass


def memory(name: str) -> int:
    """Return a figure of the machine's memory, in bytes."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{name}:"))
