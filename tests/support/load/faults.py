"""What tests of absent parts share: a plane of their own, load that must not notice, eyes on the API and the live feed.

Figures are printed as `figure: ...` (see them with `pytest -rP` or `-s`); docs/control.md has them in a table.
"""

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from tests.support.load.traffic import Traffic
from tests.support.promises import PromiseBroken
from tests.support.servers.processes import Process
from tests.support.servers.system import Answer, System
from tests.support.waiting import eventually, eventually_async, figure

LOOK_SECONDS = 0.2


@contextlib.contextmanager
def running_plane(
    folder: Path, redis_url: str, *, groups: int = 2, delays: int = 0, database_url: str = "", **options: int
) -> Iterator[System]:
    """A system with its control plane, started; stopped behind the block. `database_url`: of its own, migrated here."""
    with System(
        folder,
        console=True,
        workers=1,
        beats=1,
        groups=groups,
        delays=delays,
        redis_url=redis_url,
        database_url=database_url,
        **options,
    ) as plane:
        plane.start()
        yield plane


@contextlib.asynccontextmanager
async def load(plane: System, *subjects: str, per_second: float = 20.0) -> AsyncIterator[Traffic]:
    """Traffic that sees no error: all that was acknowledged came, nothing else came, and it goes on at the end."""
    async with Traffic(
        plane.meta_url, list(subjects), ("billing", "audit"), per_second=per_second, start="earliest"
    ) as traffic:
        await traffic.begin_sending(plane)
        await eventually_async(lambda: all(len(values) > 5 for values in traffic.acked.values()), what="load runs")
        yield traffic
        assert not traffic.errors, traffic.errors[:5]
        await goes_on(traffic)
        await traffic.end_sending()
        await traffic.check_received()
        assert not traffic.errors, traffic.errors[:5]


async def goes_on(traffic: Traffic) -> None:
    """Wait until more messages are acknowledged and received on every subject."""
    sent = {subject: len(values) for subject, values in traffic.acked.items()}
    received = {key: len(counts) for key, counts in traffic.received.items()}
    await eventually_async(
        lambda: all(len(traffic.acked[subject]) > count + 10 for subject, count in sent.items()),
        what="each subject has ten more acknowledged messages",
    )
    await eventually_async(
        lambda: all(len(traffic.received[key]) > count + 10 for key, count in received.items()),
        what="each group has ten more messages",
    )


async def during(seconds: float, look: Callable[[], None]) -> None:
    """Look again and again, in a thread, for so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        await asyncio.to_thread(look)
        await asyncio.sleep(LOOK_SECONDS)


async def until(look: Callable[[], Any], limit_s: float, what: str) -> float:
    """Look in a thread until it is true; the seconds it took, printed as a figure beside `limit_s`."""
    began = time.monotonic()
    await asyncio.to_thread(eventually, look, what=what, every_s=LOOK_SECONDS)
    seconds = time.monotonic() - began
    figure(what, seconds, limit_s)
    return seconds


class Api:
    """Asks the API, and keeps how long it took."""

    def __init__(self, plane: System) -> None:
        self.plane = plane
        self.slowest_seconds = 0.0
        self.statuses: set[int] = set()

    def ask(self, method: str, path: str, body: Any = None, **kwargs: Any) -> Answer:
        """Send one request and measure it."""
        began = time.monotonic()
        answer = self.plane.ask(method, path, body, **kwargs)
        took = time.monotonic() - began
        self.slowest_seconds = max(self.slowest_seconds, took)
        self.statuses.add(answer.status)
        if answer.status >= 500 and not is_problem(answer):
            raise PromiseBroken(f"{method} {path}: {answer.status} {answer.raw[:300]!r}")
        return answer


def is_problem(answer: Answer) -> bool:
    """Whether an answer says in our way that the database is away."""
    kind = answer.headers.get("content-type", answer.headers.get("Content-Type", ""))
    return (
        answer.status == 503
        and kind.startswith("application/problem+json")
        and answer.body["code"] == "database.away"
        and answer.body["status"] == 503
    )


class States:
    """Every change of a broker group's state, from the audit log: nothing in between is missed."""

    def __init__(self, plane: System) -> None:
        self._plane = plane
        self._since = self._newest()

    def _entries(self) -> list[dict[str, Any]]:
        entries = self._plane.get("/audit/?action=broker_group.&limit=100")["results"]
        assert isinstance(entries, list)
        return entries

    def _newest(self) -> int:
        return max((int(entry["id"]) for entry in self._entries()), default=0)

    def changes(self) -> list[tuple[str, str, str]]:
        """(broker group, new state, reason) since this object was made, oldest first."""
        return [
            (entry["target"], entry["after"]["state"], entry["reason"])
            for entry in reversed(self._entries())
            if int(entry["id"]) > self._since
            and (entry["before"] or {}).get("state") != (entry["after"] or {}).get("state")
        ]


@dataclass(slots=True)
class Live:
    """A websocket's messages with when they came (monotonic seconds)."""

    messages: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    is_open: bool = True

    def of(self, kind: str, since: float = 0.0) -> list[tuple[float, dict[str, Any]]]:
        """Those of a type that came since then."""
        return [(at, message) for at, message in list(self.messages) if message["type"] == kind and at >= since]

    async def next(self, kind: str, since: float) -> tuple[float, dict[str, Any]]:
        """Wait for the first message of a type since then; its time of arrival and itself."""
        await eventually_async(lambda: self.of(kind, since), what=f"a {kind} message")
        return self.of(kind, since)[0]


@contextlib.asynccontextmanager
async def live(plane: System, path: str) -> AsyncIterator[Live]:
    """A websocket of the console, e.g. `/ws/nodes/`, listened to inside the block."""
    url = f"ws://127.0.0.1:{plane.port}{path}"
    found = Live()

    async def read(socket: ClientConnection) -> None:
        async for text in socket:
            found.messages.append((time.monotonic(), json.loads(text)))
        found.is_open = False

    async with connect(url, additional_headers={"Authorization": f"Bearer {plane.token}"}, max_size=None) as socket:
        reading = asyncio.create_task(read(socket))
        try:
            await eventually_async(lambda: found.of("snapshot"), what="a snapshot")
            yield found
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


async def judges_again(plane: System) -> float:
    """Until the heartbeats loop goes by stored leases again, and has done so twice; the seconds until the first."""
    took = await until(lambda: "is judged" not in plane.loop("heartbeats")["result"], 30, "leases are judged")
    runs = int((await asyncio.to_thread(plane.loop, "heartbeats"))["runs"])
    await until(lambda: int(plane.loop("heartbeats")["runs"]) >= runs + 2, 20, "twice")
    return took


def kill_family(process: Process) -> None:
    """kill -9 for a process and its children, as when their machine is gone."""
    pids = process.family()
    process.kill()
    for pid in pids[1:]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def standing(*processes: Process) -> Iterator[None]:
    """SIGSTOP inside the block for processes and their children, SIGCONT behind it."""
    with contextlib.ExitStack() as stack:
        for process in processes:
            stack.enter_context(process.paused())
        yield
