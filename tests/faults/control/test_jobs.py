"""F31: worker and beat are dead; and there are more of them than needed."""

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.load.faults import kill_family, live, load, running_plane, until
from tests.support.servers.services import RedisServer
from tests.support.waiting import eventually_async, figure
from tests.support.whole import in_whole_fault_runs

ALARM_SECONDS = 30.0
SUBJECTS = [f"spread{number}" for number in range(8)]


@contextmanager
def pager() -> Iterator[tuple[str, list[tuple[float, dict[str, Any]]]]]:
    """A webhook's receiver: its URL, and what came with when (monotonic seconds)."""
    received: list[tuple[float, dict[str, Any]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((time.monotonic(), json.loads(body)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", received
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@in_whole_fault_runs
async def test_f31_somebody_is_told_within_30_s_that_worker_and_beat_are_dead(
    tmp_path: Path, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QMQ_WEBHOOK_NETWORKS", "127.0.0.0/8")
    with pager() as (url, received), running_plane(tmp_path, redis_server.url) as plane:
        plane.post("/alert-channels/", {"name": "pager", "kind": "webhook", "url": url, "reason": "test"})
        rules = plane.get("/alert-rules/?kind=job_late")["results"]
        rule = next(row for row in rules if row["kind"] == "job_late")
        changed = plane.ask("PATCH", f"/alert-rules/{rule['id']}/", {"channels": ["pager"], "reason": "test"})
        assert changed.status == 200, changed.raw
        await until(lambda: not any(row["is_late"] for row in plane.get("/jobs/")["results"]), 30, "all jobs run")
        async with load(plane, "orders"), live(plane, "/ws/events/") as events:
            kill_family(plane.workers[0])
            kill_family(plane.beats[0])
            dead_at = time.monotonic()

            def told() -> list[float]:
                return [
                    at for at, body in list(received) if at > dead_at and body["event"] == "firing"
                    and body["alert"]["kind"] == "job_late"
                ]  # fmt: skip

            await until(lambda: plane.job("heartbeats")["is_late"], ALARM_SECONDS, "/jobs/ shows it")
            figure("F31 worker and beat dead: /jobs/ shows is_late", time.monotonic() - dead_at)

            def seen() -> list[float]:
                return [
                    at for at, message in events.of("delta", dead_at)
                    for entry in message["delta"].get("events", {}).get("set", {}).values()
                    if entry["kind"] == "job.late" and entry["after"] is True
                ]  # fmt: skip

            await eventually_async(seen, what="the collector publishes an event")
            figure("F31 worker and beat dead: event on /ws/events/", seen()[0] - dead_at)
            await eventually_async(told, what="a notification")
            figure("F31 worker and beat dead: notification delivered", told()[0] - dead_at)
            assert told()[0] - dead_at <= ALARM_SECONDS
            # By hand everything goes on.
            plane.post("/broker-groups/g2/read-only/", {"reason": "by hand, without jobs"})
            plane.post("/broker-groups/g2/writable/", {"reason": "by hand, without jobs"})
            plane.workers[0].start(wait=False)
            plane.beats[0].start(wait=False)
            took = await until(lambda: not plane.job("heartbeats")["is_late"], 30, "jobs run again")
            figure("F31 worker and beat started: heartbeats run", took)
        firing = Counter(
            body["alert"]["target"] for _, body in received
            if body["event"] == "firing" and body["alert"]["kind"] == "job_late"
        )  # fmt: skip
        assert max(firing.values()) == 1, firing


@in_whole_fault_runs
async def test_f31_two_beats_and_many_workers_decide_everything_once(tmp_path: Path, redis_server: RedisServer) -> None:
    with running_plane(tmp_path, redis_server.url, workers=8, beats=2) as plane:
        async with load(plane, *SUBJECTS, per_second=5):
            before = {row["name"]: row for row in plane.get("/jobs/")["results"]}
            began = time.monotonic()
            for name in ("g3", "g4"):
                await asyncio.to_thread(plane.add_broker(name).start)

            def spread() -> bool:
                rows = plane.get("/subjects/?limit=100")["results"]
                rows = [row for row in rows if row["name"] in SUBJECTS]
                groups = Counter(group for row in rows for group in row["broker_groups"])
                return not any(row["phases"] for row in rows) and len(groups) == 4

            took = await until(spread, 50, "the new groups have a share, nothing moves")
            figure("F31 two beats, many workers: two groups added and used", took)
            passed = time.monotonic() - began
            for row in plane.get("/jobs/")["results"]:
                runs = int(row["runs"]) - int(before[row["name"]]["runs"])
                # Two beats ask twice as often.
                assert runs <= 1.25 * passed / row["every_seconds"] + 2, (row["name"], runs, passed)
                if row["name"] == "heartbeats":
                    print(f"figure: F31 two beats: heartbeats ran {runs} times in {passed:.1f} s")
                    assert runs >= 0.5 * passed / row["every_seconds"] - 2
                assert row["failures"] == before[row["name"]]["failures"], row
        entries = plane.get("/audit/?action=route.&limit=100")["results"]
        assert entries
        # Each step goes on from the one before: nothing was decided twice, nothing from what was no longer so.
        last: dict[str, Any] = {}
        for entry in reversed(entries):
            assert entry["before"] != entry["after"], entry
            assert entry["before"] == last.get(entry["target"], entry["before"]), (entry, last[entry["target"]])
            last[entry["target"]] = entry["after"]
