"""Which of some messages match: filter, properties, and the time that it may take."""

import pytest

from qmq.protocol.masking import HIDDEN, NO_MASKS, Masks
from qmq.protocol.messages import Message, encode_raw
from qmq_node.filters import matching
from qmq_node.filters.matching import Matching
from qmq_node.log.disk import SystemDisk
from tests.support.manual_clock import ManualClock

MASKS = Masks.of([{"properties": ["card"], "json_paths": [], "how": "hide"}])
RAWS = [
    encode_raw(Message("s", f"m{n}", {"n": str(n), "card": "4111"}, (), 0, 1_700_000_000_000, 1_700_000_000_000))
    for n in range(4)
]


def found(
    text: str = "", match: dict[str, str] | None = None, masks: Masks = NO_MASKS, raws: list[bytes] | None = None
) -> list[bool]:
    messages = [(raw, 0) for raw in raws or RAWS]
    return Matching(text, match or {}, 0, messages, 1.0, masks).run(SystemDisk(), ManualClock(0))


def test_filter_and_properties_must_both_match() -> None:
    assert found() == [True] * 4
    assert found("int(properties.n) > 1") == [False, False, True, True]
    assert found(match={"n": "2"}) == [False, False, True, False]
    assert found("int(properties.n) > 2", {"n": "2"}) == [False] * 4
    assert found(match={"missing": ""}) == [False] * 4


def test_both_see_what_is_shown() -> None:
    assert found(match={"card": "4111"}, masks=MASKS) == found("card=4111", masks=MASKS) == [False] * 4
    assert found(match={"card": HIDDEN}, masks=MASKS) == found(f"card={HIDDEN}", masks=MASKS) == [True] * 4


def test_bytes_that_are_no_message_do_not_match() -> None:
    assert found("n=0", raws=[b"", RAWS[0]]) == found(match={"n": "0"}, raws=[RAWS[0][:-1], RAWS[0]]) == [False, True]


@pytest.mark.parametrize(("seconds", "looked_at"), [(0.0, 1), (1.0, 2), (10.0, 4)])
def test_it_ends_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch, seconds: float, looked_at: int) -> None:
    clock = ManualClock(0)

    class Slow(matching.Content):
        @property
        def properties(self) -> dict[str, str]:
            clock.advance(0.6)
            return super().properties

    monkeypatch.setattr(matching, "Content", Slow)
    messages = [(raw, 0) for raw in RAWS]
    assert len(Matching("", {"n": "0"}, 0, messages, seconds).run(SystemDisk(), clock)) == looked_at
