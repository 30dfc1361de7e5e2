"""Files and folders for the owner of the process alone: umask, data folders, secrets."""

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Callable

from qmq.errors import SettingError

UMASK = 0o077
FOLDER_MODE = 0o700
_TRACES = ("node.json", "secret_key", "up.lock", "routes.json", "meta.sqlite3", "meta/meta.sqlite3")
"""Any of these makes a folder a data folder of PyQMQ."""
_NOT_COUNTED = {"lost+found"}
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def restrict_umask() -> None:
    """Give files that this process and its children create no permissions for group and others."""
    os.umask(UMASK)


def make_private_dir(path: str) -> None:
    """Create a folder with mode 0700, or restrict an existing one of this user, and everything below, to it.

    A folder that others have access to and that contains no file of PyQMQ is not changed: it may be a home folder, or /tmp.

    Raises:
        SettingError: the folder belongs to another user or serves something else, or a mode in it can't be changed.
        OSError: it can't be created or read.
    """
    os.makedirs(path, mode=FOLDER_MODE, exist_ok=True)
    owner = os.stat(path).st_uid
    if owner != os.geteuid():
        raise SettingError(
            f"folder {path} belongs to user {owner}, this process runs as user {os.geteuid()};"
            " run it as that user, change the folder's owner, or use a new folder inside"
        )
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        mode = stat.S_IMODE(os.fstat(fd).st_mode)
        if not mode & _OTHERS:
            return
        if set(os.listdir(fd)) - _NOT_COUNTED and not any(
            os.path.lexists(os.path.join(path, name)) for name in _TRACES
        ):
            raise SettingError(
                f"folder {path} is open to other users and contains files that PyQMQ did not write; use a new or empty folder,"
                " or remove the access of group and others"
            )
        # The folder first: from then on no other user can replace what is restricted below.
        os.fchmod(fd, mode & ~_OTHERS)
        if os.fstat(fd).st_mode & _OTHERS:
            raise SettingError(
                f"the file system of folder {path} does not support modes: other users can read it;"
                " use a folder on another file system"
            )
        _restrict_below(fd, path)
    finally:
        os.close(fd)


def _restrict_below(fd: int, path: str) -> None:
    for folder, folders, files, folder_fd in os.fwalk(".", onerror=_raise, dir_fd=fd):
        for name in (*folders, *files):
            # Files of a running process may disappear meanwhile.
            with contextlib.suppress(FileNotFoundError):
                mode = os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_mode
                if stat.S_ISLNK(mode) or not mode & _OTHERS:
                    continue
                try:
                    os.chmod(name, stat.S_IMODE(mode) & ~_OTHERS, dir_fd=folder_fd)
                except PermissionError as error:
                    place = os.path.normpath(os.path.join(path, folder, name))
                    raise SettingError(f"{place} can't be restricted to its owner: {error.strerror}") from error


def _raise(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def keep_secret(path: str, make: Callable[[], str]) -> str:
    """Return the secret in a file, created with the result of `make` in a private folder. Raises SettingError, OSError.

    Processes that start at once return the same secret: each writes a file of its own, and the first to link it to `path` wins.
    """
    folder = os.path.dirname(path) or "."
    make_private_dir(folder)
    try:
        return _read(path)
    except FileNotFoundError:
        pass
    temporary = _write_aside(path, make())
    try:
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        os.unlink(temporary)
    sync_folder(folder)
    return _read(path)


def replace_secret(path: str, text: str) -> None:
    """Write a file with mode 0600, or replace it whole; its folder must exist. Raises OSError; the old file is unchanged."""
    temporary = _write_aside(path, text)
    try:
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    sync_folder(os.path.dirname(path) or ".")


def _read(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise SettingError(f"{path} is a link; delete it, and the next start creates a new secret") from error
        raise
    with open(fd, encoding="utf-8") as file:
        owner = os.fstat(fd).st_uid
        if owner != os.geteuid():
            raise SettingError(
                f"{path} belongs to user {owner}, this process runs as user {os.geteuid()}: that user knows the secret;"
                " delete the file, and the next start creates a new one"
            )
        text = file.read().strip()
    if not text:
        raise SettingError(f"{path} is empty; delete it, and the next start creates a new secret")
    return text


def _write_aside(path: str, text: str) -> str:
    """Write a synced temporary file beside `path`; its name."""
    fd, temporary = tempfile.mkstemp(prefix=f".{os.path.basename(path)}.", dir=os.path.dirname(path) or ".")
    try:
        with open(fd, "w", encoding="utf-8") as file:
            file.write(f"{text}\n")
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        os.unlink(temporary)
        raise
    return temporary


def sync_folder(folder: str) -> None:
    """Make the names in a folder durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
