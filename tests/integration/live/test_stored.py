"""The stored snapshot for views: each version of it is read and parsed once in a process."""

import threading
from typing import Any

import pytest
import redis

from console.live import bus
from console.live.bus import FORMAT, HEALTH_KEY, SNAPSHOT_KEY, StoredReader, encode
from tests.support.services import Server


def stored(version: int, subjects: int = 1_000, stream: str = "a" * 32) -> str:
    state = {"groups": {f"s{n}\ng": {"subject": f"s{n}", "group": "g"} for n in range(subjects)}}
    head = {"format": FORMAT, "stream": stream, "version": version, "at": "2026-01-31T12:00:00.000Z"}
    return encode({**head, "at_ms": 1_769_860_800_000 + version, "state": state})


def test_requests_between_two_beats_parse_one_snapshot(live_redis: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[int] = []
    original = bus.snapshot_of

    def counting(text: Any) -> Any:
        parsed.append(len(text or b""))
        return original(text)

    monkeypatch.setattr(bus, "snapshot_of", counting)
    reader = StoredReader(live_redis.url)
    with redis.Redis.from_url(live_redis.url) as client:
        client.flushall()
        assert reader.read() == (None, None)
        parsed.clear()
        for version in range(1, 4):
            client.set(SNAPSHOT_KEY, stored(version))
            client.set(HEALTH_KEY, encode({"beats": version}))
            threads = [threading.Thread(target=reader.read) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            snapshot, health = reader.read()
            assert (snapshot or {})["version"] == version
            assert health == {"beats": version}
        assert len(parsed) == 3
        client.set(SNAPSHOT_KEY, stored(3, stream="b" * 32))
        assert (reader.read()[0] or {})["stream"] == "b" * 32, "another collector with the same version"
        client.delete(SNAPSHOT_KEY)
        assert reader.read()[0] is None, "an expired snapshot is not shown"
        client.flushall()


def test_the_head_of_a_snapshot_ends_after_what_tells_snapshots_apart() -> None:
    text = stored(1 << 40)
    assert text.index('"state"') < bus.HEAD_BYTES
