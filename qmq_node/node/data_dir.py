"""class DataDir: a node's data folder, which one process uses at a time and which belongs to one node."""

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from qmq.errors import SettingError
from qmq_node.log.atomic_file import read_file, replace_file
from qmq_node.log.disk import Disk

if TYPE_CHECKING:
    from random import Random

FORMAT = 1
_META = "node.json"
_FILE_BYTES_MAX = 64 << 10
_INCARNATION = re.compile(rb"([0-9a-f]{16})( replica)?")
"""A folder in which the node has stored what it is in its broker group says so, so that the loss of that file is noticed."""


@dataclass(frozen=True, slots=True)
class DataDirOwner:
    """The node that a folder belongs to; written once, checked at every start."""

    kind: str
    broker_group: str
    node_id: str
    format: int = FORMAT


@dataclass(frozen=True, slots=True)
class DataDir:
    """The folder, locked until `close`."""

    incarnation: str
    """Identifies the folder's content: written when a node first opens it, so an emptied folder gets another one."""
    has_replica: bool
    """Whether `note_replica` was called for the folder."""
    note_replica: Callable[[], None]
    """Records durably that the folder has a file of what the node is in its group
    (`qmq_node.replication.replica_state`). Raises OSError."""
    close: Callable[[], None]
    """Unlocks the folder."""

    @classmethod
    def open(cls, path: str, owner: DataDirOwner, disk: Disk, rng: "Random") -> "DataDir":
        """Lock the folder and check that it belongs to this node; a new folder gets a random incarnation of 64 bits. Uses the disk.

        Raises OSError, or SettingError for a folder of another process, user, node or version.
        """
        disk.make_dir(path)
        disk.make_private_dir(path)
        try:
            unlock = disk.lock_dir(path)
        except BlockingIOError as error:
            raise SettingError(
                f"--data-dir {path} is in use by another process; use a separate folder for each node"
            ) from error
        try:
            _check_owner(path, owner, disk)
            data = _kept(disk, f"{path}/incarnation", lambda: rng.randbytes(8).hex().encode())
            found = _INCARNATION.fullmatch(data)
            if found is None:
                raise SettingError(
                    f"{path}/incarnation has {data[:40]!r}, not 16 hexadecimal digits; restore it. Without that file, a"
                    " member of a broker group counts as one that lost its data"
                )
        except BaseException:
            unlock()
            raise
        noted = found[1] + b" replica"
        return cls(
            found[1].decode(),
            found[2] is not None,
            lambda: replace_file(disk, f"{path}/incarnation", [noted]),
            unlock,
        )


def _check_owner(path: str, owner: DataDirOwner, disk: Disk) -> None:
    data = _kept(disk, f"{path}/{_META}", lambda: json.dumps(asdict(owner)).encode())
    try:
        found = DataDirOwner(**json.loads(data))
    except (ValueError, TypeError) as error:
        raise SettingError(f"{path}/{_META} can't be read: {error}; restore it or use an empty folder") from error
    if found.format != FORMAT:
        raise SettingError(f"--data-dir {path} has format {found.format}, this version reads {FORMAT}")
    if found != owner:
        raise SettingError(
            f"--data-dir {path} belongs to {found.kind} {found.node_id} of group {found.broker_group},"
            f" not to {owner.kind} {owner.node_id} of group {owner.broker_group}"
        )


def _kept(disk: Disk, path: str, make: Callable[[], bytes]) -> bytes:
    """The content of a file, which is made when there is none."""
    data = read_file(disk, path, _FILE_BYTES_MAX)
    if data is None:
        data = make()
        replace_file(disk, path, [data])
    return data
