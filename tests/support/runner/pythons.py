"""Run a command on another Python version of this machine: `python -m tests.support.runner.pythons --on 3.12 -- -m
pytest tests/unit`.

Each version has a virtual environment in the checkout, .venv-3.12 say, with the packages of nodes, console and these tests as
requirements.lock pins them. It is created again when the lock changes.
"""

import argparse
import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from uv import find_uv_bin

from tests.support.servers.processes import PROJECT

VERSIONS = ("3.11", "3.12", "3.13")
"""That PyQMQ supports."""
ROOTS = (
    "pyqmq[console,formats,zstd,opentelemetry,prometheus,postgresql,mysql,sqlalchemy]",
    "pytest", "pytest-asyncio", "pytest-django", "pytest-timeout", "pytest-xdist",
    "hypothesis", "opentelemetry-sdk", "msgspec", "pydantic", "zstandard",
)  # fmt: skip
"""What these tests need; not Spark and browsers."""
TESTS = (
    "tests/unit/qmq",
    "tests/unit/qmq_node",
    "tests/unit/broker_node",
    "tests/unit/delay_node",
    "tests/unit/metaserver",
    "tests/sim/net",
    "tests/sim/broker",
    "tests/sim/delay",
    "tests/sim/client",
    "tests/sim/metaserver",
    "tests/sim/world/test_loop.py",
    "tests/sim/swarm/test_swarm.py",
    "tests/served/net",
    "tests/served/broker",
    "tests/served/client",
)
SELECTION = (*TESTS, "-m", "not slow")
"""Arguments of pytest: the tests that run on each version. Large inputs, crashes at every step and most seeds run on one."""
SYSTEMS = ("tests/sim/swarm/test_swarm.py", "-m", "not slow")
"""The same for a version between the oldest and the newest: whole systems. What works on both of these rarely fails between."""
LOCK = PROJECT / "requirements.lock"


def version_of(python: Path) -> str:
    """Return the full version of an interpreter that can create virtual environments; "" when it does not work."""
    show = "import sys, venv; print('%d.%d.%d' % sys.version_info[:3])"
    try:
        done = subprocess.run([python, "-c", show], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def find(version: str) -> Path | None:
    """Return an interpreter of a version such as 3.12: from PATH, else the newest of pyenv's; None when there is none."""
    # pyenv puts a `python3.12` on PATH that fails unless that version is chosen: an interpreter counts when it runs.
    return next((found for found in _candidates(version) if version_of(found).startswith(f"{version}.")), None)


def _candidates(version: str) -> Iterator[Path]:
    on_path = shutil.which(f"python{version}")
    if on_path is not None:
        yield Path(on_path)
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    installed = [path for path in pyenv.glob(f"versions/{version}.*") if re.fullmatch(r"[0-9.]+", path.name)]
    for folder in sorted(installed, key=lambda path: [int(part) for part in path.name.split(".")], reverse=True):
        yield folder / "bin/python"


def packages(version: str) -> set[str]:
    """Return the names of ROOTS and of all they depend on, with that Python version."""
    environment = {**default_environment(), "python_version": version, "python_full_version": f"{version}.0"}
    waiting = [Requirement(root) for root in ROOTS]
    done: set[tuple[str, str]] = set()
    while waiting:
        requirement = waiting.pop()
        for extra in ("", *requirement.extras):
            key = (canonicalize_name(requirement.name), extra)
            if key in done:
                continue
            done.add(key)
            try:
                needed = importlib.metadata.requires(requirement.name) or []
            except importlib.metadata.PackageNotFoundError:
                continue  # of another Python version only; pip complains when it needs more
            for text in needed:
                found = Requirement(text)
                if found.marker is None or found.marker.evaluate({**environment, "extra": extra}):
                    waiting.append(found)
    return {name for name, _ in done}


def pins(lock: str, names: set[str]) -> str:
    """Return the entries of a lock file for these packages, with their hashes."""
    entries = re.split(r"\n(?=[A-Za-z0-9])", lock.strip())
    return "".join(f"{entry}\n" for entry in entries if canonicalize_name(re.split(r"[=; \[]", entry)[0]) in names)


def virtual_environment(version: str, python: Path) -> Path:
    """Return the Python of a virtual environment with the pinned packages; make it when it is missing or of another lock."""
    folder = PROJECT / f".venv-{version}"
    wanted = pins(LOCK.read_text(), packages(version))
    digest = hashlib.sha256(f"{version_of(python)}\n{wanted}".encode()).hexdigest()[:16]
    stamp = folder / f".stamp-{digest}"
    if not stamp.exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
        requirements = folder / "requirements.txt"
        requirements.write_text(wanted)
        # uv takes a tenth of pip's time here: most of these packages were downloaded for another version before.
        subprocess.run(
            [
                find_uv_bin(), "pip", "install", "--quiet", "--python", folder / "bin/python",
                "--require-hashes", "--only-binary", ":all:", "-r", requirements,
            ],
            check=True,
        )  # fmt: skip
        stamp.touch()
    return folder / "bin/python"


def _others() -> dict[str, Path | None]:
    """Return the interpreter of each supported version but this process's; None where there is none."""
    return {version: find(version) for version in VERSIONS if version != "{}.{}".format(*sys.version_info)}


def installed() -> list[str]:
    """Return the other supported versions that this machine has."""
    return [version for version, python in _others().items() if python is not None]


def missing() -> list[str]:
    """Return the other supported versions that this machine lacks."""
    return [version for version, python in _others().items() if python is None]


def main(argv: list[str]) -> None:
    """Replace this process by a Python of the version with these arguments; end with 1 when the version is not installed."""
    parser = argparse.ArgumentParser(prog="pythons", description=__doc__)
    parser.add_argument("--on", choices=VERSIONS, required=True)
    parser.add_argument("arguments", nargs="+")
    options = parser.parse_args(argv)
    python = find(options.on)
    if python is None:
        sys.exit(f"Python {options.on} is not on PATH and not among pyenv's versions")
    print(f"== Python {options.on}: {version_of(python)}", flush=True)
    program = virtual_environment(options.on, python)
    os.execv(program, [str(program), *options.arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
