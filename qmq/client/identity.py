"""Ids of clients: stable over restarts; a consumer's also differs from those of other running processes.

The broker keeps what a consumer pulled and did not ack for the consumer's id. An id that survives a restart gets these
messages back at once; with an id that two running processes share, each gets a part of them, and neither gets all of its own
back. So the default id of a consumer is made of what stays the same over restarts (host name, application, program, folder),
of its *place*, and of a *slot*: the lowest number that no other running consumer of the same program, subject and group there
holds. A slot is held by a lock on a file, which the operating system releases when the process ends, however it ends.

Containers often share host name, program and folder, but neither files nor locks. So the place is the container, where it is
one of a known kind, and otherwise a random number that is stored beside the lock files. Processes without common lock files
never have the same place.
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
PLACE_FILE = "place"
_PLACE_BYTES = 32
_PRIVATE = 0o700
_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)

logger = logging.getLogger("qmq.client")


def default_client_id(app: str, place: str = "") -> str:
    """A client id that stays the same over restarts: host name and a digest of application, program, folder, and place.

    Producers have no place: their id only names the program to operators, and may be shared.
    """
    text = "\n".join((app, *_program(), *filter(None, (place,))))
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

    The first slot's id is `default_client_id(app, place)`; the others' add `-1`, `-2` and so on. Where no lock is available, the
    id is random, and a warning is logged: it is distinct, but does not survive a restart.

    Args:
        group: "" for a broadcast consumer, whose group is its id.
        folders: where lock files may be, best first; the first usable one is taken.
    """
    if fcntl is None:
        return _random_slot(app, "this system has no fcntl.flock")
    scope = _digest("\n".join((default_client_id(app), subject, group)))
    problem = "no folder for lock files"
    for folder in (folders or lock_folders)():
        try:
            return _claim_in(folder, app, scope, slots_max)
        except OSError as error:
            problem = f"{folder}: {error.strerror or error}"
    return _random_slot(app, problem)


def _claim_in(folder: Path, app: str, scope: str, slots_max: int) -> ConsumerSlot:
    """The lowest free slot of a folder, or a random one when all are held. Raises OSError."""
    folder_descriptor = _open_private(folder)
    try:
        for slot in range(slots_max):
            descriptor = _lock(folder_descriptor, f"{scope}-{slot}.lock")
            if descriptor is not None:
                try:
                    container = container_of(_mounts())
                    # Two users of a container have different folders.
                    place = f"{container}\n{folder}" if container else _stored_place(folder_descriptor)
                except BaseException:
                    os.close(descriptor)
                    raise
                base = default_client_id(app, place)
                return ConsumerSlot(base if slot == 0 else f"{base}-{slot}", descriptor)
    finally:
        os.close(folder_descriptor)
    return _random_slot(app, f"all {slots_max} slots are held")


def _random_slot(app: str, problem: str) -> ConsumerSlot:
    logger.warning(
        "no stable default consumer id: %s. This consumer uses a random id; messages it has not acked when its process is"
        " killed are redelivered only when the broker's lease of that id expires. Pass consumer_id to avoid this.",
        problem,
    )
    return ConsumerSlot(f"{default_client_id(app)}-{secrets.token_hex(8)}", None)


def container_of(mounts: str) -> str:
    """What identifies the container or pod of this process: the file that is mounted as its /etc/hostname. "" outside of one.

    Docker, Podman, containerd and CRI-O mount a file there whose path contains the random id of the container, or of the pod. It
    stays the same when the container is restarted, also where its file system is new then, as in Kubernetes.

    Args:
        mounts: text of /proc/self/mountinfo.
    """
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) > 4 and fields[4] == "/etc/hostname":
            return fields[3]
    return ""


def _mounts() -> str:
    try:
        return Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape")
    except OSError:
        return ""


def _stored_place(folder_descriptor: int) -> str:
    """The random number stored in a folder of lock files; the first process stores it. Raises OSError."""
    descriptor = os.open(PLACE_FILE, _FLAGS, 0o600, dir_fd=folder_descriptor)
    try:
        stored = os.pread(descriptor, _PLACE_BYTES, 0)
        if len(stored) == _PLACE_BYTES:
            return stored.decode("ascii", "replace")
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        stored = os.pread(descriptor, _PLACE_BYTES, 0)
        if len(stored) < _PLACE_BYTES:  # new, or its writer was killed
            stored = secrets.token_hex(_PLACE_BYTES // 2).encode()
            os.pwrite(descriptor, stored, 0)
            os.fsync(descriptor)
            os.fsync(folder_descriptor)
        return stored.decode("ascii", "replace")
    finally:
        os.close(descriptor)


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
    descriptor = os.open(name, _FLAGS, 0o600, dir_fd=folder_descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
