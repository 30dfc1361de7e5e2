"""The official Java client as a process that tests talk to in JSON lines."""

import contextlib
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.servers.system import System
from tests.support.waiting import eventually

PROJECT = Path(__file__).parent / "java"
BUILD_SECONDS = 300
NEWEST, WIRE_8 = "1.1.43", "1.1.3"
"""The newest release in Maven Central, and the newest there that speaks header version 8."""


def missing_tools() -> str:
    """Return which programs of the Java client are not installed, as a sentence; "" when none."""
    lacking = [tool for tool in ("mvn", "java") if shutil.which(tool) is None]
    return f"{' and '.join(lacking)} not on PATH: the Java client can't be built and run" if lacking else ""


def build(version: str) -> Path:
    """Compile the driver against a release of the client; the folder with its classes and libraries."""
    target = PROJECT / "target" / version
    built = target / "built"
    sources = [PROJECT / "pom.xml", *PROJECT.rglob("*.java")]
    if not built.exists() or built.stat().st_mtime < max(path.stat().st_mtime for path in sources):
        done = subprocess.run(
            [
                "mvn", "-q", "-B", f"-Dqmq.version={version}", "compile", "dependency:copy-dependencies",
                f"-DoutputDirectory={target / 'lib'}",
            ],
            cwd=PROJECT, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"mvn failed:\n{done.stdout[-3000:]}\n{done.stderr[-1000:]}"
        built.touch()
    return target


@dataclass(frozen=True)
class Raised:
    """The exception of a getter, by the simple name of its class."""

    exception: str


class JavaClient:
    """One Java process: a producer and a consumer of the official client.

    Args:
        send_timeout_ms: how long its producer waits for an answer; None: as long as it does by default.
    """

    def __init__(
        self,
        version: str,
        meta_url: str,
        client_id: str,
        log: Path,
        heap_mib: int = 256,
        send_timeout_ms: int | None = None,
    ) -> None:
        target = build(version)
        self.events: list[dict[str, Any]] = []
        self._reads = 0
        with open(log, "ab") as errors:
            self._process = subprocess.Popen(
                [
                    "java", "-XX:TieredStopAtLevel=1", f"-Xmx{heap_mib}m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                    "-cp", os.pathsep.join((str(target / "classes"), str(target / "lib" / "*"))),
                    "pyqmq.Driver", meta_url, client_id, *([] if send_timeout_ms is None else [str(send_timeout_ms)]),
                ],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, encoding="utf-8",
            )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.wait("ready", 1)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self.events.append(json.loads(line))

    def do(self, what: str, **facts: Any) -> None:
        """Tell it something."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": what, **facts}) + "\n")
        self._process.stdin.flush()

    def of(self, event: str, name: str | None = None) -> list[dict[str, Any]]:
        """Events of a kind so far."""
        return [e for e in list(self.events) if e["event"] == event and name in (None, e.get("name"))]

    def wait(self, event: str, count: int, name: str | None = None) -> list[dict[str, Any]]:
        """Wait until there are so many events of a kind."""

        def look() -> list[dict[str, Any]]:
            assert self._process.poll() is None, "the Java client ended"
            found = self.of(event, name)
            return found if len(found) >= count else []

        try:
            return eventually(look, what=f"{count} times {event}")
        except AssertionError as error:
            raise AssertionError(f"{error}; there were {len(self.of(event, name))}") from error

    def read(self, listener: str, message_id: str, method: str, key: str = "") -> Any:
        """Read a message that a listener with `retain` got.

        Args:
            method: a getter such as `getIntProperty`. `getAttrs`: all properties. `parseJson` and `decodeBase64`: the large string
                as gson and java.util.Base64 decode it, the latter as a list of bytes.

        Returns:
            The value; a date in milliseconds since the epoch. `Raised` if the getter raises.
        """
        self._reads += 1
        name = str(self._reads)
        self.do("read", listener=listener, id=message_id, method=method, key=key, name=name)
        (found,) = self.wait("read", 1, name)
        return Raised(found["raised"]) if "raised" in found else found.get("value")

    def stop(self) -> None:
        """End it."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._reader.join(5)
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()


Make = Callable[..., JavaClient]


def listen(client: JavaClient, subject: str, group: str = "g", **facts: object) -> None:
    """Start a listener, and let its group begin on every broker: a new group starts at the end (trap T26)."""
    client.do("listen", subject=subject, group=group, name=f"{subject}/{group}", **facts)
    client.wait("listening", 1, f"{subject}/{group}")


def group_begun(system: System, subject: str, group: str, groups: int = 2) -> None:
    """Wait until a consumer group exists on so many brokers."""

    def look() -> bool:
        begun = 0
        for name in (node.removesuffix("-a") for one in system.brokers for node in system.members(one)):
            # Slaves have no subjects.
            for found in system.admin(name, f"/stats?subject={subject}").get("subjects", ()):
                begun += any(g["group"] == group for g in found["groups"])
        return begun >= groups

    eventually(look, what=f"group {group} begins on {groups} brokers")
