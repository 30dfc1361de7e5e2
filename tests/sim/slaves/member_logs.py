"""What the disks of a broker group's members hold of its log, by log offset."""

import json
from collections.abc import Iterator

from qmq_node.replication.replica_state import FILE_NAME, decode_state
from qmq_node.replication.rules.roles import ReplicaState
from tests.sim.world.cluster import Host
from tests.support.disks.memory_disk import Inode

PIECE_BYTES = 32 << 10
"""Larger buffers cost a run more than what is compared in them: each is mapped from the system, and given back."""
INCARNATION_CHARS = 16
CRC_BYTES = 4
"""Behind the content of the file of the replica's state."""


def folder_of(host: Host) -> str:
    """Return the data folder of a host's node."""
    return f"/{host.name}"


def written(host: Host, begin: int, end: int) -> bytes:
    """Return the bytes [begin, end) of the log as the process has written them, synced or not; zeros where nothing is."""
    return _bytes(_segments(host.disk.names, folder_of(host)), begin, end, is_synced=False)


def durable_pieces(host: Host, begin: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield the bytes [begin, end) of the log that no power cut can take, piece by piece, each with its offset; zeros where
    nothing is."""
    segments = _segments(host.disk.durable_names, folder_of(host))
    for at in range(begin, end, PIECE_BYTES):
        yield at, _bytes(segments, at, min(at + PIECE_BYTES, end), is_synced=True)


def log_begin(host: Host) -> int:
    """Return the log offset where the log on the disk begins."""
    return min((base for base, _ in _segments(host.disk.durable_names, folder_of(host))), default=0)


def _segments(names: dict[str, Inode], folder: str) -> list[tuple[int, Inode]]:
    prefix = f"{folder}/log/"
    length = len(prefix)
    return [
        (int(path[length:]), inode)
        for path, inode in names.items()
        if path.startswith(prefix) and path[length:].isdigit()
    ]


def _bytes(segments: list[tuple[int, Inode]], begin: int, end: int, *, is_synced: bool) -> bytes:
    found = bytearray(end - begin)
    for base, inode in segments:
        content = inode.synced if is_synced else inode.content
        first, last = max(begin, base), min(end, base + len(content))
        if first < last:
            found[first - begin : last - begin] = content[first - base : last - base]
    return bytes(found)


def durable_incarnation(host: Host) -> str:
    """Return the incarnation of the node's data folder; "" without one."""
    inode = host.disk.durable_names.get(f"{folder_of(host)}/incarnation")
    return inode.synced[:INCARNATION_CHARS].decode() if inode is not None else ""


def durable_state(host: Host) -> ReplicaState:
    """Return what the node has durably stored about its group; the default without a file."""
    inode = host.disk.durable_names.get(f"{folder_of(host)}/{FILE_NAME}")
    if inode is None:
        return ReplicaState()
    try:
        return decode_state(bytes(inode.synced[:-CRC_BYTES]))
    except (json.JSONDecodeError, LookupError):
        # Its name is durable, and its content is not.
        return ReplicaState()
