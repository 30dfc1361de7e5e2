"""What a JVM has learned of Spark's classes, kept for the next: that starts and plans in two thirds of the time.

Java writes such an archive when it ends (JEP 350), and takes one only when it is of the same build and the same jars.
"""

import hashlib
import os
import subprocess
from pathlib import Path
from uuid import uuid4

import pyspark
from pyspark import SparkContext

from spark_analytics.java import version_text

WRITE_SECONDS_MAX = 120.0
"""How long Java may take to end, most of which is writing some 190 MB."""
# Java complains on stdout, and about each class that it leaves out.
QUIET = "-Xlog:cds*=off"


class ClassArchive:
    """One file in a folder, for this Java and this Spark; files for others are deleted when it is written.

    Where it is missing the next run may write it: give `java_options` to the JVM, end the session, and `keep`. A process that ends
    without leaves at most a file with a name of its own, which is deleted by the next that writes.
    """

    def __init__(self, folder: Path, java: Path | None, *, may_write: bool) -> None:
        """`java` is JAVA_HOME, None the `java` of the PATH."""
        self._folder = folder
        executable = "java" if java is None else str(java / "bin" / "java")
        jars = Path(pyspark.__file__).parent / "jars"
        changed_ns = jars.stat().st_mtime_ns if jars.is_dir() else 0
        known_by = f"{version_text(executable)}\n{jars}\n{changed_ns}"
        self.path = folder / f"spark-{pyspark.__version__}-{hashlib.sha256(known_by.encode()).hexdigest()[:16]}.jsa"
        self._unfinished = self.path.with_suffix(f".{uuid4().hex}.new")
        self.is_written = may_write and not self.path.exists() and _is_writable(folder)
        """This session's JVM is to write it."""

    def java_options(self) -> str:
        """What makes Java use it, or write it; empty when there is none."""
        if self.is_written:
            return f'{QUIET} "-XX:ArchiveClassesAtExit={self._unfinished}"'
        return f'{QUIET} "-XX:SharedArchiveFile={self.path}"' if self.path.exists() else ""

    def keep(self) -> bool:
        """After the session was stopped: wait for its JVM to end, and keep what it wrote. False: it wrote nothing."""
        java = _java()
        if not self.is_written or java is None:
            return False
        try:
            if java.stdin is not None:
                java.stdin.close()  # it ends with this
            code = java.wait(WRITE_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            code = None
        except BaseException:  # an interrupt or exit: no Java stays behind to write
            self.give_up()
            raise
        try:
            is_whole = code == 0 and _sync(self._unfinished)
            if is_whole:
                os.replace(self._unfinished, self.path)
        except OSError:  # a disk that is full, or fails: the next run starts as this one did
            is_whole = False
        if not is_whole:
            self.give_up()
            return False
        for other in self._folder.glob("spark-*"):
            if other != self.path and other.suffix in {".jsa", ".new"}:
                other.unlink(missing_ok=True)
        return True

    def give_up(self) -> None:
        """After the session was stopped: end its JVM before it writes what is not worth keeping."""
        java = _java()
        if self.is_written and java is not None:
            java.kill()
            java.wait()
            if java.stdin is not None:
                java.stdin.close()
        self._unfinished.unlink(missing_ok=True)


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def _sync(path: Path) -> bool:
    """Whether it is there, and on the disk. Raises OSError."""
    if not path.exists():
        return False
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return True


def _java() -> "subprocess.Popen[bytes] | None":
    """The JVM that PySpark has started in this process."""
    gateway = SparkContext._gateway
    return getattr(gateway, "proc", None)
