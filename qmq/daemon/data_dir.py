"""A node's folder: one process at a time, and never another node's."""

import fcntl
import json
import os
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass

from qmq.errors import SettingError
from qmq.log.atomic_file import replace_file
from qmq.log.disk import Disk
from qmq.private_files import make_private_dir

FORMAT = 1
_LOCK = "lock"
_META = "node.json"
_INCARNATION = "incarnation"


def random_incarnation() -> str:
    """64 random bits as 16 hex digits."""
    return secrets.token_hex(8)


@dataclass(frozen=True, slots=True)
class DataDirOwner:
    """Whose folder it is; written once, checked at every start."""

    kind: str
    broker_group: str
    node_id: str
    format: int = FORMAT


class DataDir:
    """The folder, locked for as long as this object lives."""

    def __init__(self, path: str, lock_fd: int, incarnation: str) -> None:
        self.path = path
        self.incarnation = incarnation
        """Identifies this folder: written once, when a node first opens it, so that an emptied folder has another one."""
        self._lock_fd = lock_fd

    @classmethod
    def open(
        cls, path: str, owner: DataDirOwner, disk: Disk, new_incarnation: Callable[[], str] = random_incarnation
    ) -> "DataDir":
        """Lock the folder and make sure that it is this node's; `new_incarnation` names a folder without a name.

        Raises:
            SettingError: another process uses it, it belongs to another user or node, or another version wrote it.
            OSError: it can't be made or read.
        """
        disk.make_dir(path)
        make_private_dir(path)
        fd = os.open(f"{path}/{_LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(fd)
            raise SettingError(f"--data-dir {path} is in use by another process; give each node its own") from error
        try:
            cls._check_owner(path, owner, disk)
            incarnation = cls._incarnation(path, disk, new_incarnation)
        except BaseException:
            os.close(fd)
            raise
        return cls(path, fd, incarnation)

    @staticmethod
    def _check_owner(path: str, owner: DataDirOwner, disk: Disk) -> None:
        if _META in disk.list_dir(path):
            data = _read(path, _META, disk)
            try:
                found = DataDirOwner(**json.loads(data))
            except (ValueError, TypeError) as error:
                raise SettingError(
                    f"{path}/{_META} can't be read: {error}; restore it or use an empty folder"
                ) from error
            if found.format != FORMAT:
                raise SettingError(f"--data-dir {path} has format {found.format}, this version reads {FORMAT}")
            if found != owner:
                raise SettingError(
                    f"--data-dir {path} belongs to {found.kind} {found.node_id} of group {found.broker_group},"
                    f" not to {owner.kind} {owner.node_id} of group {owner.broker_group}"
                )
            return
        replace_file(disk, f"{path}/{_META}", [json.dumps(asdict(owner)).encode()])

    @staticmethod
    def _incarnation(path: str, disk: Disk, new_incarnation: Callable[[], str]) -> str:
        if _INCARNATION not in disk.list_dir(path):
            replace_file(disk, f"{path}/{_INCARNATION}", [new_incarnation().encode()])
        return _read(path, _INCARNATION, disk).decode("ascii", "replace")

    def close(self) -> None:
        """Let the next process in."""
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1


def _read(path: str, name: str, disk: Disk) -> bytes:
    file = disk.open(f"{path}/{name}", writable=False)
    try:
        return bytes(file.pread(file.size(), 0))
    finally:
        file.close()
