"""Messages of committed transactions: to the producer in one request, or left to the relay."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from qmq.client.encoder import Encoder, ObservedSends
from qmq.client.message import new_message_id
from qmq.client.middleware import MiddlewareChain
from qmq.errors import IllegalName, LocalProtocolError, QueueFull
from qmq.outbox import committed as module
from qmq.outbox.committed import Outgoing, Pending, Row, inserts
from qmq.outbox.deletion import Deletion, Stored
from qmq.protocol.frames import MESSAGE_BYTES_MAX
from qmq.supervisor import Supervisor
from tests.support.manual_clock import ManualClock
from tests.support.outbox import Outcomes, ScriptedProducer, unavailable


class Setting:
    """An outbox whose producer and database do what a test says."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.outcomes = Outcomes()
        self.scripted = ScriptedProducer()
        self.deleted: list[int] = []
        self.failure: Exception | None = None
        supervisor = Supervisor(self.clock, logger=logging.getLogger("tests"), on_failure=lambda name, error: None)
        encoder = Encoder("tests", self.clock, new_message_id, None)
        self._producer: Any = SimpleNamespace(
            observed=ObservedSends(encoder, MiddlewareChain([self.outcomes], supervisor)),
            loop=asyncio.get_running_loop(),
            send_together=self.scripted.send_together,
        )
        self.outgoing = Outgoing(self._find, Deletion(self._delete), clock=self.clock)

    def _delete(self, rows: Sequence[Stored]) -> None:
        assert all(key == f"m{row_id}" for row_id, key in rows), "a row is known by its ID and its message's"
        self.deleted += [row_id for row_id, _ in rows]

    def _find(self) -> Any:
        if self.failure is not None:
            raise self.failure
        return self._producer

    def rows(self, *subjects: str, first: int = 1, **options: Any) -> list[Row]:
        """Committed messages of these subjects, with ascending IDs."""
        return [
            Row(number, self.outgoing.prepare(subject, f"{number}", message_id=f"m{number}", **options))
            for number, subject in enumerate(subjects, first)
        ]

    async def flush(self) -> None:
        assert await asyncio.to_thread(self.outgoing.flush, 60)


@pytest.fixture
async def setting() -> Setting:
    return Setting()


async def test_messages_of_a_subject_are_one_request_in_their_order(setting: Setting) -> None:
    rows = setting.rows("a", "b", "a") + setting.rows("a", first=4, delay=timedelta(seconds=1))
    setting.outgoing.send(rows)
    assert setting.scripted.requests == [], "nothing is sent in the thread that commits"
    await setting.flush()
    assert setting.scripted.requests == [("a", ["m1", "m3"]), ("b", ["m2"]), ("a", ["m4"])]
    assert sorted(setting.deleted) == [1, 2, 3, 4]
    assert setting.outcomes.counts == {"stored": 4}


async def test_only_stored_rows_are_deleted(setting: Setting, caplog: pytest.LogCaptureFixture) -> None:
    setting.scripted.answer = lambda subject, ids: {"m2": unavailable()}
    setting.outgoing.send(setting.rows("a", "a", "a"))
    await setting.flush()
    assert setting.deleted == [1, 3]
    assert setting.outgoing.left == 1
    assert setting.outcomes.counts == {"stored": 2, "outbox.left": 1}
    assert caplog.text.count("left to the relay") == 1


async def test_a_message_without_a_row_is_sent_and_nothing_deleted(setting: Setting) -> None:
    setting.outgoing.send([Row(None, row.pending) for row in setting.rows("a")])
    await setting.flush()
    assert setting.scripted.stored == ["m1"]
    assert setting.deleted == []


@pytest.mark.parametrize("error", [QueueFull("full"), RuntimeError("a bug")])
async def test_messages_that_the_producer_does_not_take_are_left(setting: Setting, error: Exception) -> None:
    rows = setting.rows("a")
    if isinstance(error, RuntimeError):
        setting.failure = error
    else:

        def refuse(*_: Any, **__: Any) -> None:
            raise error

        setting._producer.send_together = refuse
    setting.outgoing.send(rows)
    await setting.flush()
    assert setting.outcomes.counts == {"outbox.left": 1}
    assert setting.deleted == []


async def test_a_limit_of_messages_waits_for_the_event_loop(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HANDED_OVER_MAX", 3)
    setting.outgoing.send(setting.rows(*"aaaaa"))
    setting.outgoing.send(setting.rows("a", first=6))
    await setting.flush()
    assert setting.scripted.stored == ["m1", "m2", "m3", "m4", "m5"], "a transaction that is alone has room"
    assert setting.outcomes.counts == {"stored": 5, "outbox.left": 1}
    setting.outgoing.send(setting.rows("a", first=7))
    await setting.flush()
    assert setting.deleted[-1] == 7


async def test_after_closing_messages_are_left(setting: Setting) -> None:
    assert await asyncio.to_thread(setting.outgoing.close, 60)
    setting.outgoing.send(setting.rows("a"))
    assert setting.outcomes.counts == {"outbox.left": 1}


async def test_the_loop_of_the_producer_is_closed(setting: Setting) -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    rows = setting.rows("a", "b")
    setting._producer.loop = loop
    setting.outgoing.send(rows)
    assert setting.outgoing.flush(60)
    assert setting.outcomes.counts == {"outbox.left": 2}


async def test_flush_waits_no_longer_than_it_may(setting: Setting) -> None:
    setting.scripted.held = {"a"}
    setting.outgoing.send(setting.rows("a"))
    assert not await asyncio.to_thread(setting.outgoing.flush, 0.01)
    setting.scripted.waiting.pop()()
    await setting.flush()


async def test_what_was_on_its_way_in_the_parent_is_not_the_childs(setting: Setting) -> None:
    setting.scripted.held = {"a"}
    setting.outgoing.send(setting.rows("a"))
    setting.outgoing.forked()
    assert setting.outgoing.flush(0.0)


async def test_invalid_messages_have_one_outcome(setting: Setting) -> None:
    prepare = setting.outgoing.prepare
    with pytest.raises(IllegalName):
        prepare("no subject!", "1")
    with pytest.raises(LocalProtocolError, match=f"the limit is {MESSAGE_BYTES_MAX}"):
        prepare("a", "x" * (MESSAGE_BYTES_MAX + 1))
    with pytest.raises(LocalProtocolError, match="due time"):
        prepare("a", "1", delay=timedelta(days=10_000_000))
    with pytest.raises(LocalProtocolError):
        setting.outgoing.prepare_many("a", ["1", "2", object()])  # type: ignore[list-item]
    setting.outgoing.drop([prepare("a", "1")], "why")
    assert setting.outcomes.counts.pop("outbox.rolled_back") == 3
    assert len(setting.outcomes.ended) == len(setting.outcomes.begun)


async def test_a_drop_by_the_garbage_collector_calls_hooks_on_the_loop(setting: Setting) -> None:
    pending = setting.outgoing.prepare("a", "1")
    setting.outgoing.drop_later([pending], "why")
    assert setting.outcomes.ended == []
    await asyncio.sleep(0)
    assert setting.outcomes.counts == {"outbox.rolled_back": 1}


async def test_an_insert_has_limits(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INSERTED_ROWS", 2)
    monkeypatch.setattr(module, "INSERTED_BYTES", 2000)

    def bodies(parts: Sequence[Sequence[Pending]]) -> list[list[int]]:
        return [[len(each.message.properties["data"]) for each in part] for part in parts]

    pending = [setting.outgoing.prepare("a", "x" * size) for size in (1, 2, 3, 5000, 4, 1700, 5)]
    assert bodies([*inserts(pending)]) == [[1, 2], [3], [5000], [4], [1700], [5]]
    assert [*inserts([])] == []
