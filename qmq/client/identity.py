"""Ids of clients: stable over restarts; a consumer's also differs from those of other running processes.

The broker keeps what a consumer pulled and did not ack for the consumer's id. An id that survives a restart gets these
messages back at once; an id that two running processes share gives both of them every message. So the default id of a
consumer is a digest of what stays the same over restarts, and a *slot*: the lowest number that no other running consumer
of the same program, subject and group on this host holds. A slot is held by a lock on a file, which the operating system
releases when the process ends, however it ends.
"""

import contextlib
import hashlib
import logging
import os
import secrets
import socket
import stat
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # pragma: no cover - not a POSIX system
    fcntl = None  # type: ignore[assignment]

SLOTS_MAX = 1_024
"""Default consumer ids per host for one program, subject and group; consumers beyond them get random ids."""
FOLDER = "qmq"
_PRIVATE = 0o700

logger = logging.getLogger("qmq.client")


def default_client_id(app: str) -> str:
    """A client id that stays the same over restarts: host name and a digest of application, program and folder."""
    text = "\n".join((app, *_program()))
    return f"{socket.gethostname()}@@{_digest(text)}"


def _program() -> tuple[str, str]:
    """The program's path and its working folder; "" for a folder that was deleted."""
    try:
        folder = os.getcwd()
    except OSError:
        return sys.argv[0], ""
    return os.path.abspath(sys.argv[0] or "python"), folder


def _digest(text: str) -> str:
    return hashlib.md5(text.encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest()


class ConsumerSlot:
    """A default consumer id, held until `release`, or until the object or its process ends. Forked children do not inherit it."""

    def __init__(self, consumer_id: str, descriptor: int | None) -> None:
        self.consumer_id = consumer_id
        self._descriptor = descriptor
        if descriptor is not None:
            _held.add(self)

    def release(self) -> None:
        """Close the lock file; the lock ends unless a parent process holds it as well."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        self.release()


_held: "weakref.WeakSet[ConsumerSlot]" = weakref.WeakSet()


def _close_in_child() -> None:
    # A lock belongs to the open file, which parent and child share. The child closes its copy, so that the lock ends with
    # the parent; unlocking it would release the parent's.
    for slot in list(_held):
        slot.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


def claim_slot(
    app: str,
    subject: str,
    group: str,
    *,
    folders: "Callable[[], Iterator[Path]] | None" = None,
    slots_max: int = SLOTS_MAX,
) -> ConsumerSlot:
    """Claim the default id of a consumer. Blocks on the file system; call it outside the event loop's thread.

    The first slot's id is `default_client_id(app)`; the others' add `-1`, `-2` and so on. Where no lock is available, the id
    is random, and a warning is logged: it is distinct, but does not survive a restart.

    Args:
        group: "" for a broadcast consumer, whose group is its id.
        folders: where lock files may be, best first; the first usable one is taken.
    """
    base = default_client_id(app)
    if fcntl is None:
        return _random_slot(base, "this system has no fcntl.flock")
    scope = _digest("\n".join((base, subject, group)))
    problem = "no folder for lock files"
    for folder in (folders or lock_folders)():
        try:
            return _claim_in(folder, base, scope, slots_max)
        except OSError as error:
            problem = f"{folder}: {error.strerror or error}"
    return _random_slot(base, problem)


def _claim_in(folder: Path, base: str, scope: str, slots_max: int) -> ConsumerSlot:
    """The lowest free slot of a folder, or a random one when all are held. Raises OSError."""
    folder_descriptor = _open_private(folder)
    try:
        for slot in range(slots_max):
            descriptor = _lock(folder_descriptor, f"{scope}-{slot}.lock")
            if descriptor is not None:
                return ConsumerSlot(base if slot == 0 else f"{base}-{slot}", descriptor)
    finally:
        os.close(folder_descriptor)
    return _random_slot(base, f"all {slots_max} slots are held")


def _random_slot(base: str, problem: str) -> ConsumerSlot:
    logger.warning(
        "no stable default consumer id: %s. This consumer uses a random id; messages it has not acked when its process is"
        " killed are redelivered only when the broker's lease of that id expires. Pass consumer_id to avoid this.",
        problem,
    )
    return ConsumerSlot(f"{base}-{secrets.token_hex(8)}", None)


def lock_folders() -> Iterator[Path]:
    """The user's state folder, then one of the user's own in the system's folder for temporary files.

    Services and cron jobs have no XDG_RUNTIME_DIR, and service managers give services temporary folders of their own.
    """
    state = os.environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(state):
        yield Path(state) / FOLDER
    else:
        home = os.path.expanduser("~")
        if os.path.isabs(home):
            yield Path(home) / ".local" / "state" / FOLDER
    yield Path(tempfile.gettempdir()) / f"{FOLDER}-{os.geteuid()}"


def _open_private(folder: Path) -> int:
    """Open a folder, created if it is missing, that only this user can write to; no symbolic link. Raises OSError."""
    folder.parent.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=_PRIVATE)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    found = os.fstat(descriptor)
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        os.close(descriptor)
        raise OSError(f"not private: owner {found.st_uid}, mode {stat.S_IMODE(found.st_mode):o}; 700 is required")
    return descriptor


def _lock(folder_descriptor: int, name: str) -> int | None:
    """The descriptor of a lock file, locked; None when another consumer holds it. Lock files are never deleted."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o600, dir_fd=folder_descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
