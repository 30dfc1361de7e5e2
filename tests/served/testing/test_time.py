"""`qmq_time` in test files of an imagined user: what becomes due, and what must not notice that time has passed."""

from tests.served.testing.runs import RunTests

pytest_plugins = ["pytester"]


def test_delayed_messages(run_tests: RunTests) -> None:
    found = run_tests(
        """
        from datetime import UTC, datetime, timedelta
        import pytest
        from qmq import Consumer, Producer, sync

        DAY = timedelta(days=1)

        def is_due_after(delay, message, before, after):
            # The client asks for the nodes' time: what it counts from is late by that round trip and 2 ms at most.
            return before + delay <= message.due_at <= after + (after - before) + timedelta(milliseconds=2) + delay

        def test_three_days(qmq_server, qmq_time):
            before = qmq_time.now()
            with sync.Producer(qmq_server.url) as producer:
                producer.send("order.remind", {"order": 17}, delay=3 * DAY)
                producer.send("order.remind", {"order": 18}, due=datetime.now(UTC) + 3 * DAY)
            first, second = qmq_server.delayed("order.remind")
            assert (first.properties, second.properties) == ({"order": "17"}, {"order": "18"})
            assert is_due_after(3 * DAY, first, before, qmq_time.now())
            qmq_time.advance(3 * DAY - timedelta(minutes=1))
            assert (len(qmq_server.delayed("order.remind")), qmq_server.messages("order.remind")) == (2, [])
            assert qmq_server.is_drained("order.remind", "mailer")
            qmq_time.advance(timedelta(minutes=1))
            assert [m.properties["order"] for m in qmq_server.messages("order.remind")] == ["17", "18"]
            assert qmq_server.delayed("order.remind") == []
            assert qmq_server.lag("order.remind", "mailer") == 2

        async def test_a_delay_counts_from_the_moved_time(qmq_server, qmq_time):
            async with Producer(qmq_server.url) as producer:
                for number in range(1, 4):
                    before = qmq_time.now()
                    await producer.send("order.remind", {"number": number}, delay=3 * DAY)
                    assert is_due_after(3 * DAY, qmq_server.delayed("order.remind")[0], before, qmq_time.now())
                    await qmq_time.aio.advance(2 * DAY)
                    assert len(qmq_server.messages("order.remind")) == number - 1
                    await qmq_time.aio.advance(DAY)
                    assert len(qmq_server.messages("order.remind")) == number

        def test_many_become_due_at_once_in_order(qmq_server, qmq_time):
            with sync.Producer(qmq_server.url) as producer:
                for number in reversed(range(48)):
                    producer.send("order.remind", {"number": number}, delay=timedelta(hours=number + 1))
            qmq_time.advance(timedelta(hours=24))
            assert [int(m.properties["number"]) for m in qmq_server.messages("order.remind")] == list(range(24))
            qmq_time.advance(timedelta(hours=24))
            assert [int(m.properties["number"]) for m in qmq_server.messages("order.remind")] == list(range(48))

        def test_a_cancelled_message_is_not_delivered(qmq_server, qmq_time):
            with sync.Producer(qmq_server.url) as producer:
                assert producer.send("order.remind", {"order": 17}, delay=DAY).cancel().outcome == "done"
            qmq_time.advance(2 * DAY)
            assert qmq_server.messages("order.remind") == qmq_server.delayed("order.remind") == []

        def test_time_runs_only_forward(qmq_server, qmq_time):
            with pytest.raises(ValueError, match="forward"):
                qmq_time.advance(-DAY)

        def test_without_the_fixture_clients_use_real_time(qmq_server):
            with sync.Producer(qmq_server.url) as producer:
                producer.send("order.remind", {"order": 17}, delay=3 * DAY)
                qmq_server.time.advance(3 * DAY)
                assert len(qmq_server.messages("order.remind")) == 1

        def test_two_years(qmq_server, qmq_time):
            with sync.Producer(qmq_server.url) as producer:
                producer.send("order.paid", {"order": 17})
                producer.send("order.remind", {"order": 17}, delay=timedelta(days=730))
                qmq_time.advance(timedelta(days=730))
                assert len(qmq_server.messages("order.remind")) == len(qmq_server.messages("order.paid")) == 1
                before = qmq_time.now()
                producer.send("order.remind", {"order": 17}, delay=timedelta(days=730))
                (message,) = qmq_server.delayed("order.remind")
                assert is_due_after(timedelta(days=730), message, before, qmq_time.now())
        """
    )
    found.assert_outcomes(passed=7)


def test_retries_and_dead_letters(run_tests: RunTests) -> None:
    found = run_tests(
        """
        from datetime import timedelta
        from qmq import Consumer, Producer

        async def test_each_attempt_comes_after_the_retry_delay(qmq_server, qmq_time):
            causes = []
            async with Producer(qmq_server.url) as producer:
                await producer.send("order.paid", {"order": 17})
            async with Consumer(qmq_server.url, "order.paid", "billing", start="earliest", attempts_max=3) as consumer:
                for attempt in (1, 2, 3):
                    (delivery,) = await consumer.pull(1, timeout=30)
                    assert delivery.attempt == attempt
                    await delivery.retry(cause=f"Declined{attempt}")
                    if attempt < 3:
                        assert await qmq_server.aio.lag("order.paid", "billing") >= 1
                        await qmq_time.aio.advance(timedelta(seconds=4))
                        assert await consumer.pull(1, timeout=0.05) == []
                        await qmq_time.aio.advance(timedelta(seconds=1))
                await qmq_server.aio.wait_drained("order.paid", "billing")
            (dead,) = await qmq_server.aio.dead_letters("order.paid", "billing")
            assert (dead.properties, dead.retry_cause, dead.attempt) == ({"order": "17"}, "Declined3", 4)
            assert len(await qmq_server.aio.messages("order.paid")) == 1
        """
    )
    found.assert_outcomes(passed=1)


def test_a_consumer_notices_nothing_of_the_jump(run_tests: RunTests) -> None:
    found = run_tests(
        '''
        import asyncio
        from datetime import timedelta
        import pytest
        from qmq import Consumer, Producer

        YEARS = timedelta(days=730)

        @pytest.mark.parametrize("by", [timedelta(seconds=3.5), timedelta(days=3), YEARS])
        async def test_messages_in_flight_stay_with_a_live_consumer(qmq_server, qmq_time, by, caplog):
            async with Producer(qmq_server.url) as producer, Consumer(
                qmq_server.url, "order.paid", "billing", start="earliest"
            ) as consumer:
                await producer.send("order.paid", {"order": 17})
                (delivery,) = await consumer.pull(1, timeout=30)
                for _ in range(10):
                    await qmq_time.aio.advance(by)
                assert await qmq_server.aio.lag("order.paid", "billing") == 1
                await delivery.ack()
                await qmq_server.aio.wait_drained("order.paid", "billing")
                await producer.send("order.paid", {"order": 18})
                (delivery,) = await consumer.pull(1, timeout=30)
                assert (delivery.properties["order"], delivery.attempt) == ("18", 1)
                await delivery.ack()
                await qmq_server.aio.wait_drained("order.paid", "billing")
            assert [r.getMessage() for r in caplog.records if r.levelname in ("WARNING", "ERROR", "CRITICAL")] == []

        async def test_messages_of_a_consumer_that_ended_are_retried_after_its_lease(qmq_server, qmq_time):
            async with Producer(qmq_server.url) as producer:
                await producer.send("order.paid", {"order": 17})
            crashed = Consumer(qmq_server.url, "order.paid", "billing", start="earliest", consumer_id="one")
            await crashed.start()
            await crashed.pull(1, timeout=30)
            await crashed.supervisor.close()
            await crashed._session.close()
            await crashed._producer.close()
            await crashed._pool.close()
            async with Consumer(qmq_server.url, "order.paid", "billing", consumer_id="two") as consumer:
                assert await consumer.pull(1, timeout=0.05) == []
                await qmq_time.aio.advance(timedelta(minutes=3, seconds=1))
                await qmq_server.aio.wait_for("%RETRY%order.paid%billing")
                await qmq_time.aio.advance(timedelta(seconds=5))
                (delivery,) = await consumer.pull(1, timeout=30)
                assert (delivery.properties, delivery.attempt) == ({"order": "17"}, 1)
                await delivery.ack()
            await qmq_server.aio.wait_drained("order.paid", "billing")

        async def test_a_waiting_pull_and_a_running_producer(qmq_server, qmq_time):
            """Time jumps 30 times under load: every message is delivered once, as the first attempt."""
            found = []

            async def consume(consumer):
                async for delivery in consumer:
                    async with delivery:
                        found.append((int(delivery.properties["number"]), delivery.attempt))

            async with Producer(qmq_server.url) as producer, Consumer(
                qmq_server.url, "order.paid", "billing", start="earliest"
            ) as consumer:
                task = asyncio.create_task(consume(consumer))
                for number in range(30):
                    futures = [producer.send_soon("order.paid", {"number": 20 * number + i}) for i in range(20)]
                    await qmq_time.aio.advance(timedelta(hours=7))
                    await asyncio.gather(*futures)
                await qmq_server.aio.wait_for("order.paid", 600, timeout=60)
                await qmq_server.aio.wait_drained("order.paid", "billing", timeout=60)
            await task
            assert sorted(found) == [(number, 1) for number in range(600)]
        '''
    )
    found.assert_outcomes(passed=5)


def test_outages_of_the_broker(run_tests: RunTests) -> None:
    found = run_tests(
        """
        import asyncio
        from datetime import timedelta
        import pytest
        from qmq import Consumer, Producer, SendFailed, Timeouts

        async def test_a_send_waits_for_the_broker(qmq_server, qmq_time):
            async with Producer(qmq_server.url) as producer, Consumer(
                qmq_server.url, "order.paid", "billing", start="earliest"
            ) as consumer:
                await producer.send("order.paid", {"order": 17})
                (delivery,) = await consumer.pull(1, timeout=30)
                await qmq_server.aio.stop_broker()
                await qmq_server.aio.stop_broker()  # it is stopped already
                with pytest.raises(RuntimeError, match="the broker is stopped"):
                    qmq_server.messages("order.paid")
                later = producer.send_soon("order.paid", {"order": 18})
                waiting = asyncio.create_task(qmq_server.aio.wait_for("order.paid", 2, timeout=60))
                await producer.send("order.paid", {"order": 19}, delay=timedelta(days=1))
                await qmq_time.aio.advance(timedelta(days=1))  # it is due, and stays in the delay node
                assert len(qmq_server.delayed("order.paid")) == 1
                assert not later.done()
                await qmq_server.aio.start_broker()
                await later
                await waiting
                await delivery.ack()
                stored = await qmq_server.aio.wait_for("order.paid", 3, timeout=60)
                assert {m.properties["order"] for m in stored} == {"17", "18", "19"}
                found = set()
                while len(found) < 2:
                    for delivery in await consumer.pull(3, timeout=30):
                        found.add(delivery.properties["order"])
                        await delivery.ack()
                assert found == {"18", "19"}
                await qmq_server.aio.wait_drained("order.paid", "billing", timeout=60)

        async def test_a_send_fails_when_the_outage_is_too_long(qmq_server):
            qmq_server.stop_broker()
            async with Producer(qmq_server.url, timeouts=Timeouts(delivery=0.2, route=0.1)) as producer:
                with pytest.raises(Exception, match="not confirmed"):
                    await producer.send("order.paid", {"order": 17})
            with pytest.raises(TimeoutError, match="broker is stopped"):
                await qmq_server.aio.wait_drained("order.paid", "billing", timeout=0.01)
            with pytest.raises(TimeoutError, match="broker is stopped"):
                await qmq_server.aio.wait_for("order.paid", timeout=0.01)
        """.replace("SendFailed, ", "")
    )
    found.assert_outcomes(passed=2)
