"""Sends of a relay: order, chunks, unavailable subjects, rows that fail by themselves."""

from qmq.errors import QmqError
from qmq.outbox.rows import entry_of, message_of
from qmq.outbox.sends import CHUNK_BYTES, CHUNK_ROWS, REST_SECONDS, SUBJECTS_MAX, Due, Sends
from tests.support.manual_clock import ManualClock
from tests.support.outbox import ScriptedProducer, content, ids_of, refused, unavailable


def rows(subject: str, *numbers: int, body: str = "x", **properties: str) -> list[Due]:
    found = []
    for number in numbers:
        message = message_of(content(subject, f"m{number}", body, **properties), 0)
        found.append(Due(number, message, entry_of(message), 0, 0))
    return found


def fails(*ids: str):  # type: ignore[no-untyped-def]
    """Requests fail as a whole when they contain one of these messages."""
    return lambda subject, sent: unavailable() if set(ids) & set(sent) else None


async def test_rows_go_out_by_subject_in_the_order_of_their_ids() -> None:
    producer = ScriptedProducer()
    sent = await Sends(producer, ManualClock()).send(rows("a", 1) + rows("b", 2) + rows("a", 3))
    assert producer.requests == [("a", ["m1", "m3"]), ("b", ["m2"])]
    assert sorted(sent.stored) == [1, 2, 3]


async def test_delayed_messages_are_requests_of_their_own() -> None:
    producer = ScriptedProducer()
    await Sends(producer, ManualClock()).send(rows("a", 1) + rows("a", 2, qmq_scheduleReceiveTime="1900000000000"))
    assert ids_of(producer.requests) == [["m1"], ["m2"]]


async def test_a_chunk_has_a_limit_of_rows_and_of_bytes() -> None:
    producer = ScriptedProducer()
    sends = Sends(producer, ManualClock())
    await sends.send(rows("a", *range(CHUNK_ROWS + 1)))
    assert [len(ids) for ids in ids_of(producer.requests)] == [CHUNK_ROWS, 1]
    large = rows("b", 1, 2, 3, body="y" * 30_000)
    size = len(large[0].entry)
    many = rows("b", *range(CHUNK_BYTES // size + 1), body="y" * 30_000)
    del producer.requests[:]
    await sends.send(many)
    assert [len(ids) for ids in ids_of(producer.requests)] == [CHUNK_BYTES // size, 1]


async def test_a_refused_row_does_not_hold_up_the_others() -> None:
    producer = ScriptedProducer(lambda subject, ids: {"m2": refused("delay.too_far")})
    sent = await Sends(producer, ManualClock()).send(rows("a", 1, 2, 3))
    assert sent.stored == [1, 3]
    assert [row_id for row_id, _ in sent.refused] == [2]
    assert not sent.problems


async def test_an_error_of_the_producer_is_no_refusal() -> None:
    """A closed or failed producer says nothing about the message."""
    producer = ScriptedProducer(lambda subject, ids: QmqError("closed", code="client.failed"))
    sent = await Sends(producer, ManualClock()).send(rows("a", 1))
    assert not sent.refused
    assert sent.problems == {"a": "closed"}
    assert [row.id for row in sent.left] == [1]


async def test_a_row_that_fails_beside_stored_ones_has_failed_by_itself() -> None:
    producer = ScriptedProducer(lambda subject, ids: {"m2": unavailable()})
    sent = await Sends(producer, ManualClock()).send(rows("a", 1, 2))
    assert sent.stored == [1]
    assert [row.id for row, _ in sent.failed] == [2]


async def test_of_an_unavailable_subject_one_row_is_tried_at_a_time() -> None:
    clock = ManualClock()
    producer = ScriptedProducer(lambda subject, ids: unavailable())
    sends = Sends(producer, clock)
    sent = await sends.send(rows("a", 1, 2, 3))
    assert ids_of(producer.requests) == [["m1", "m2", "m3"]]
    assert [row.id for row in sent.left] == [1, 2, 3]
    await sends.send(rows("a", 1, 2, 3))
    assert len(producer.requests) == 1, "it was tried before REST_SECONDS had passed"
    for _ in range(3):
        clock.advance(REST_SECONDS)
        sent = await sends.send(rows("a", 1, 2, 3))
        assert not sent.failed
        await sends.send(rows("a", 1, 2, 3))
    assert [len(ids) for ids in ids_of(producer.requests)] == [3, 1, 1, 1]


async def test_after_an_outage_chunks_grow() -> None:
    clock = ManualClock()
    producer = ScriptedProducer(lambda subject, ids: unavailable())
    sends = Sends(producer, clock)
    await sends.send(rows("a", *range(1_000)))
    producer.answer = lambda subject, ids: None
    clock.advance(REST_SECONDS)
    await sends.send(rows("a", *range(1_000)))
    assert ids_of(producer.requests[1:]) == [["m0"]]
    sent = await sends.send(rows("a", *range(1_000)))
    assert sent.stored[0] == 0
    assert [len(ids) for ids in ids_of(producer.requests[2:])] == [8, 64, 500, 427]
    assert sorted(sent.stored) == list(range(1_000))


async def test_nothing_waits_for_the_try_of_an_unavailable_subject() -> None:
    clock = ManualClock()
    producer = ScriptedProducer(lambda subject, ids: unavailable() if subject == "a" else None)
    sends = Sends(producer, clock)
    await sends.send(rows("a", 1))
    clock.advance(REST_SECONDS)
    producer.held.add("a")
    for _ in range(2):
        sent = await sends.send(rows("a", 1, 2) + rows("b", 3))
        assert sent.stored == [3]
    assert ids_of(producer.requests)[1:] == [["m2"], ["m3"], ["m3"]], (
        "another row is tried than the one that failed alone"
    )


async def test_the_row_of_a_try_is_not_sent_a_second_time() -> None:
    clock = ManualClock()
    producer = ScriptedProducer(lambda subject, ids: unavailable())
    sends = Sends(producer, clock)
    await sends.send(rows("a", 1, 2, 3))
    producer.answer = lambda subject, ids: None
    producer.held.add("a")
    clock.advance(REST_SECONDS)
    await sends.send(rows("a", 1, 2, 3))
    producer.held.clear()
    [respond] = producer.waiting
    respond()
    sent = await sends.send(rows("a", 1, 2, 3))
    assert sorted(sent.stored) == [1, 2, 3]
    assert sorted(producer.stored) == ["m1", "m2", "m3"]


async def test_a_try_that_began_before_rows_were_forgotten_has_no_outcome() -> None:
    """After a failover of the database, the ID of its row may be another row's, which must not be deleted."""
    clock = ManualClock()
    producer = ScriptedProducer(lambda subject, ids: unavailable())
    sends = Sends(producer, clock)
    await sends.send(rows("a", 1))
    producer.answer = lambda subject, ids: None
    producer.held.add("a")
    clock.advance(REST_SECONDS)
    await sends.send(rows("a", 1))
    [respond] = producer.waiting
    sends.forget()
    respond()
    producer.held.clear()
    sent = await sends.send(rows("b", 2))
    assert sent.stored == [2]


async def test_a_row_that_breaks_each_request_is_found_and_the_others_are_sent() -> None:
    clock = ManualClock()
    producer = ScriptedProducer(fails("m5"))
    sends = Sends(producer, clock)
    left = rows("a", *range(20))
    failed: list[int] = []
    for _ in range(30):
        sent = await sends.send(left)
        failed += [row.id for row, _ in sent.failed]
        left = [row for row in left if row.id not in sent.stored and row.id not in failed]
        clock.advance(REST_SECONDS)
    assert failed == [5]
    assert not left
    assert sorted(producer.stored) == sorted(f"m{number}" for number in range(20) if number != 5)


async def test_an_outage_blames_no_row() -> None:
    clock = ManualClock()
    producer = ScriptedProducer(lambda subject, ids: unavailable())
    sends = Sends(producer, clock)
    for _ in range(10):
        sent = await sends.send(rows("a", 1, 2, 3))
        assert not sent.failed
        clock.advance(REST_SECONDS)
    producer.answer = lambda subject, ids: None
    stored: set[int] = set()
    for _ in range(5):
        sent = await sends.send([row for row in rows("a", 1, 2, 3) if row.id not in stored])
        assert not sent.failed
        stored.update(sent.stored)
        clock.advance(REST_SECONDS)
    assert stored == {1, 2, 3}


async def test_an_outage_does_not_blame_the_only_row_of_a_subject() -> None:
    clock = ManualClock()
    sends = Sends(ScriptedProducer(lambda subject, ids: unavailable()), clock)
    for _ in range(5):
        assert not (await sends.send(rows("a", 1))).failed
        clock.advance(REST_SECONDS)


async def test_the_number_of_remembered_subjects_is_limited() -> None:
    sends = Sends(ScriptedProducer(), ManualClock())
    for number in range(SUBJECTS_MAX + 1):
        await sends.send(rows(f"s{number}", 1))
    assert len(sends._subjects) == 1
