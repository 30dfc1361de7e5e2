"""Builds the front end and runs its tools: `python -m tools.frontend build`, `python -m tools.frontend run lint test`.

Outside the console on purpose: whoever runs a wheel has the built files and needs no Node.js, and whoever builds needs neither
settings nor a secret key. A build is made only when what it is made of has changed. It grows in a folder of its own and takes
its place by a rename, the digest of its sources in it, once all of it is on disk: whatever ends a build in the middle, a power
cut included, leaves no half of one under a good digest.
"""

import argparse
import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from console import child_processes
from tools.node import Node, NodeMissing, find_node

PROJECT = Path(__file__).resolve().parent.parent
INSTALL_SECONDS = 900.0
BUILD_SECONDS = 300.0
OUTPUT_LINES = 20
"""So much is shown of how a failed command's output begins, and of how it ends."""
NOT_SOURCES = {"node_modules", "dist", "coverage", ".lock"}
"""In the front end's folder: what comes from its sources."""
GENERATED = "src/api/schema.gen.ts"
"""Types that lint and type checks make from the OpenAPI file: a build reads no types."""
PACKAGES = ("package.json", "package-lock.json", ".npmrc")
"""What node_modules is made of."""
STAMP = ".stamp"
PAGE = "index.html"


class BuildFailed(Exception):
    """A command failed or took too long; the text says which, and what it said last."""


class Frontend:
    """The front end of a project: sources in frontend/, what is served in console/dist/."""

    def __init__(self, project: Path, node: Callable[[], Node] = find_node, say: Callable[[str], None] = print) -> None:
        self._project = project
        self.source = project / "frontend"
        self.target = project / "console" / "dist"
        self._node = node
        self._say = say

    def build(self) -> bool:
        """Build when something changed since the last build; whether it did.

        Raises:
            BuildFailed: npm or Vite failed; what was built before stays.
            NodeMissing: there is no Node.js.
        """
        if self._is_built():
            return False
        with self._locked() as lock:
            if self._is_built():
                return False
            node = self._node()
            self._install(node, lock)
            for rest in self.target.parent.glob(".dist-*"):
                shutil.rmtree(rest, ignore_errors=True)
            self._build(node, lock)
        return True

    def run(self, scripts: list[str]) -> int:
        """Run scripts of package.json, one after the other, until one fails; the exit code.

        Raises:
            BuildFailed: the packages can't be installed.
            NodeMissing: there is no Node.js.
        """
        node = self.install()
        for script in scripts:
            command = [*node.npm, "run", "--silent", script]
            code = subprocess.run(command, cwd=self.source, env=node.environment(), check=False).returncode
            if code:
                return code
        return 0

    def install(self) -> Node:
        """Install the packages when the lock file changed; what runs them.

        Raises:
            BuildFailed: they can't be installed.
            NodeMissing: there is no Node.js.
        """
        node = self._node()
        with self._locked() as lock:
            self._install(node, lock)
        return node

    def digest(self) -> str:
        """Of everything that a build is made of, these lines among it."""
        paths = {str(path.relative_to(self._project)): path for path in self._sources()}
        paths["openapi"] = self._project / "api" / "openapi.yaml"
        paths["build"] = Path(__file__)
        return _digest(paths)

    def _sources(self) -> Iterator[Path]:
        for place in self.source.iterdir():
            if place.name in NOT_SOURCES:
                continue
            found = (path for path in place.rglob("*") if path.is_file()) if place.is_dir() else (place,)
            yield from (path for path in found if path != self.source / GENERATED)

    def _is_built(self) -> bool:
        return _read(self.target / STAMP) == self.digest()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        """One at a time. The descriptor is handed to npm: when we are killed the lock stays until npm has ended too."""
        lock = os.open(self.source / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._say("front end: waiting for another build")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield lock
        finally:
            os.close(lock)

    def _install(self, node: Node, lock: int) -> None:
        digest = _digest({name: self.source / name for name in PACKAGES})
        stamp = self.source / "node_modules" / STAMP
        if _read(stamp) == digest:
            return
        self._say(f"front end: installing packages with node {node.version}")
        # npm begins by removing node_modules, and the stamp with it.
        self._npm(node, ["ci"], INSTALL_SECONDS, lock)
        stamp.write_text(digest)

    def _build(self, node: Node, lock: int) -> None:
        began = time.monotonic()
        self._say("front end: building")
        digest = self.digest()
        new = Path(tempfile.mkdtemp(prefix=".dist-", dir=self.target.parent))
        try:
            self._npm(node, ["run", "build", "--", "--outDir", str(new), "--emptyOutDir"], BUILD_SECONDS, lock)
            if not (new / PAGE).is_file():
                raise BuildFailed(f"the front end's build made no {PAGE}")
            compress(new)
            (new / STAMP).write_text(digest)
            new.chmod(0o755)
            for path in (*new.rglob("*"), new):
                _sync(path)
            old = Path(tempfile.mkdtemp(prefix=".dist-", dir=self.target.parent))
            with contextlib.suppress(FileNotFoundError):
                self.target.rename(old)
            new.rename(self.target)
            _sync(self.target.parent)
            shutil.rmtree(old, ignore_errors=True)
        finally:
            shutil.rmtree(new, ignore_errors=True)
        self._say(f"front end: built in {time.monotonic() - began:.1f} s")

    def _npm(self, node: Node, words: list[str], seconds: float, lock: int) -> None:
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                [*node.npm, *words],
                cwd=self.source, env=node.environment(), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                pass_fds=(lock,), start_new_session=True,
            )  # fmt: skip
            try:
                code = process.wait(seconds)
            except subprocess.TimeoutExpired:
                raise BuildFailed(f"`npm {' '.join(words)}` did not end in {seconds:g} s") from None
            finally:
                child_processes.stop(process, grace_seconds=0)
            if code:
                output.seek(0)
                lines = output.read().decode("utf-8", "replace").splitlines()
                if len(lines) > 2 * OUTPUT_LINES:
                    lines[OUTPUT_LINES:-OUTPUT_LINES] = ["..."]
                raise BuildFailed("\n".join([f"`npm {' '.join(words)}` ended with code {code}:", *lines]))


def compress(folder: Path) -> None:
    """Put a .gz and a .br beside each file that they make smaller, so that none is compressed when it is asked for."""
    # Packages of npm are installed while those of Python still are: only a build needs this one.
    from whitenoise.compress import Compressor

    compressor = Compressor(quiet=True)
    for path in sorted(folder.rglob("*")):
        is_served = path.name != PAGE and not any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.is_file() and is_served and compressor.should_compress(path.name):
            compressor.compress(str(path))


def _digest(paths: Mapping[str, Path]) -> str:
    found = hashlib.blake2b(digest_size=16)
    for name, path in sorted(paths.items()):
        content = path.read_bytes()
        found.update(f"{name}\0{len(content)}\0".encode())
        found.update(content)
    return found.hexdigest()


def _sync(path: Path) -> None:
    """Make a file, or what a folder lists, durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (FileNotFoundError, NotADirectoryError):
        return ""


def main(arguments: list[str]) -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.frontend", description="Builds the front end, runs its tools."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="build when something changed")
    commands.add_parser("install", help="install the packages when their lock changed")
    run = commands.add_parser("run", help="run scripts of frontend/package.json")
    run.add_argument("scripts", nargs="+")
    options = parser.parse_args(arguments)
    frontend = Frontend(PROJECT)
    try:
        if options.command == "run":
            return frontend.run(options.scripts)
        if options.command == "install":
            frontend.install()
        else:
            frontend.build()
    except (BuildFailed, NodeMissing) as error:
        print(f"front end: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
