"""What a client that joins a feed costs: the state is encoded once in several versions, however many join."""

import json

import pytest

from console.live import hub
from console.live.bus import encode
from console.live.consumers import CLIENT_QUEUE_MAX
from console.live.hub import JOINING_DELTAS_MAX, _Subscribed
from console.live.state import Feed, apply


def subscribed(entries: int) -> _Subscribed:
    one = _Subscribed(Feed("lag"), stream="s", version=0, at="t0")
    one.state = {"subjects": {f"s{n}": {"number": 0} for n in range(entries)}, "groups": {}}
    return one


def test_a_client_that_joins_gets_the_present_state_and_few_of_them_cause_a_new_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoded: list[str] = []

    def counting(value: object) -> str:
        encoded.append(str(value)[:30])
        return encode(value)

    monkeypatch.setattr(hub, "encode", counting)
    one = subscribed(1_000)
    for version in range(1, 101):
        value = {"stream": "s", "version": version, "at": f"t{version}"}
        value |= {"delta": {"subjects": {"gone": [], "set": {"s7": {"number": version}}}}}
        one.advance(value, encode({"type": "delta", **value}))
        for _ in range(20):
            texts = one.joining_texts()
            assert len(texts) <= 1 + JOINING_DELTAS_MAX + 1 < CLIENT_QUEUE_MAX
            snapshot, *deltas = map(json.loads, texts)
            state, reached = snapshot["state"], snapshot["version"]
            for delta in deltas:
                assert delta["version"] == reached + 1
                state, reached = apply(state, delta["delta"]), delta["version"]
            assert (reached, state) == (version, one.state)
    assert len(encoded) <= 100 // JOINING_DELTAS_MAX + 1, "2,000 clients joined"


def test_without_new_clients_nothing_is_encoded_or_kept() -> None:
    one = subscribed(10)
    for version in range(1, 50):
        one.advance({"version": version, "at": "t", "delta": {}}, "delta")
    assert one.texts == []
    one.joining_texts()
    for version in range(50, 100):
        one.advance({"version": version, "at": "t", "delta": {}}, "delta")
    assert one.texts == []
