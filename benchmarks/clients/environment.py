"""What the peers need, made on first use in a cache folder of the checkout: their Python packages, and Kafka's files."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.servers.processes import PROJECT
from tests.support.servers.services import ServerMissing

CACHE: Path = PROJECT / ".venv-bench"
PYTHON = CACHE / "bin" / "python"
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
KAFKA = Path(__file__).with_name("kafka-server.xml")
SYSTEM_FOLDERS = ("/usr/sbin", "/usr/local/sbin")
"""Where servers are that are not on every user's PATH."""


def program(name: str, hint: str) -> str:
    """Return the path of a program.

    Args:
        hint: how to get it.

    Raises:
        ServerMissing: it is not installed.
    """
    path = shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", os.defpath), *SYSTEM_FOLDERS)))
    if path is None:
        raise ServerMissing(f"{name} is not installed; {hint}")
    return path


def peers_python() -> str:
    """Return the Python that has the peers' packages, of the same version as this one."""
    stamp = CACHE / f".stamp-{_checksum(REQUIREMENTS.read_bytes() + sys.version.encode())}"
    if not stamp.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(CACHE)], check=True)
        install = [
            str(PYTHON),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "-r",
            str(REQUIREMENTS),
        ]
        subprocess.run(install, check=True)
        stamp.touch()
    return str(PYTHON)


def kafka_jars() -> Path:
    """Return the folder of Kafka's files.

    Raises:
        ServerMissing: Java or Maven is not installed, or Maven can't copy them.
    """
    program("java", "Kafka needs Java 17")
    folder = CACHE / f"kafka-{_checksum(KAFKA.read_bytes())}"
    if not folder.exists():
        maven = program("mvn", "Maven copies Kafka's files")
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        command = [
            maven, "--batch-mode", "--quiet", "--file", str(KAFKA), "dependency:copy-dependencies", f"-DoutputDirectory={partial}",
            "-DincludeScope=runtime",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ServerMissing(f"Maven can't copy Kafka's files: {done.stdout.strip().splitlines()[:1]}")
        partial.rename(folder)
    return folder


def peer_versions() -> dict[str, str]:
    """Return the versions of the peers' packages, as they are pinned."""
    lines = [line for line in REQUIREMENTS.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("==") for line in lines)


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]
