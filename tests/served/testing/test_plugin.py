"""The pytest plugin, used by test files of an imagined user."""

import tomllib

import pytest

from tests.served.testing.runs import RunTests
from tests.support.servers.processes import PROJECT

pytest_plugins = ["pytester"]


def test_a_producer_and_a_consumer_in_each_style(run_tests: RunTests) -> None:
    found = run_tests(
        """
        import asyncio
        import pytest
        import qmq
        from qmq import sync


        async def pay(url: str) -> None:
            async with qmq.Producer(url, app="shop") as producer:
                await producer.send("order.paid", {"order": 17}, tags=["new"])


        async def bill(url: str, bills: list[str]) -> None:
            async with qmq.Consumer(url, "order.paid", "billing", start="earliest") as consumer:
                async for delivery in consumer:
                    async with delivery:
                        bills.append(delivery.properties["order"])
                    return


        async def check(qmq_server) -> None:
            bills = []
            await pay(qmq_server.url)
            (message,) = await qmq_server.aio.wait_for("order.paid")
            assert (message.properties, message.tags, message.attempt) == ({"order": "17"}, ("new",), 1)
            assert message.subject == "order.paid"
            assert await qmq_server.aio.lag("order.paid", "billing") == 1
            await bill(qmq_server.url, bills)
            await qmq_server.aio.wait_drained("order.paid", "billing")
            assert bills == ["17"]
            assert await qmq_server.aio.is_drained("order.paid", "billing")
            assert await qmq_server.aio.count("order.paid") == 1


        async def test_pytest_asyncio(qmq_server):
            await check(qmq_server)


        def test_asyncio_run(qmq_server):
            asyncio.run(check(qmq_server))


        def test_without_await(qmq_server):
            with sync.Producer(qmq_server.url) as producer:
                producer.send("order.paid", "seventeen")
            (message,) = qmq_server.messages("order.paid")
            assert message.body == "seventeen"
            assert (qmq_server.lag("order.paid", "billing"), qmq_server.is_drained("order.paid", "billing")) == (1, False)
            with sync.Consumer(qmq_server.url, "order.paid", "billing", start="earliest") as consumer:
                (delivery,) = consumer.pull(1, timeout=30)
                with delivery:
                    assert delivery.message_id == message.message_id
            qmq_server.wait_drained("order.paid", "billing")
            assert (qmq_server.lag("order.paid", "billing"), qmq_server.is_drained("order.paid", "billing")) == (0, True)
            assert qmq_server.messages("order.paid") == [message]
        """
    )
    found.assert_outcomes(passed=3)


def test_the_plugin_of_anyio(run_tests: RunTests) -> None:
    found = run_tests(
        '''
        import pytest
        from qmq import Producer

        @pytest.fixture
        def anyio_backend():
            return "asyncio"

        @pytest.mark.anyio
        async def test_sent(qmq_server):
            async with Producer(qmq_server.url) as producer:
                await producer.send("order.paid", {"order": 17})
            assert len(await qmq_server.aio.messages("order.paid")) == 1
        ''',
        plugins=("anyio",),
    )  # fmt: skip
    found.assert_outcomes(passed=1)


ISOLATED = """
    from datetime import timedelta
    import pytest
    from qmq import sync

    @pytest.mark.parametrize("number", range(4))
    def test_alone(qmq_server, qmq_time, number):
        assert qmq_server.messages("order.paid") == qmq_server.delayed("order.paid") == []
        assert qmq_server.lag("order.paid", "billing") == 0
        with sync.Producer(qmq_server.url) as producer:
            producer.send("order.paid", {"order": number})
            producer.send("order.paid", {"order": number}, delay=timedelta(hours=1))
            with sync.Consumer(qmq_server.url, "order.paid", "billing", start="earliest") as consumer:
                (delivery,) = consumer.pull(1, timeout=30)
                assert delivery.properties == {"order": str(number)}  # not acknowledged: the consumer leaves it to the group
        qmq_time.advance(timedelta(days=1))
        assert len(qmq_server.messages("order.paid")) == 2
    """


def test_a_test_sees_nothing_of_others(run_tests: RunTests) -> None:
    run_tests(ISOLATED).assert_outcomes(passed=4)


def test_workers_of_xdist_do_not_disturb_each_other(run_tests: RunTests) -> None:
    run_tests(ISOLATED, "-n", "2", plugins=("xdist", "asyncio")).assert_outcomes(passed=4)


def test_waiting_methods_name_what_is_missing(run_tests: RunTests) -> None:
    found = run_tests(
        """
        import pytest
        from qmq import sync

        def test_messages(qmq_server):
            with sync.Producer(qmq_server.url) as producer:
                producer.send("order.paid", {"order": 17})
                with pytest.raises(TimeoutError, match=r"1 of 2 messages are stored on subject 'order.paid' .*'order': '17'"):
                    qmq_server.wait_for("order.paid", 2, timeout=0.01)
                with pytest.raises(TimeoutError, match=r"0 of 1 messages .* subjects with messages: order.paid"):
                    qmq_server.wait_for("order.payed", timeout=0.01)
                with pytest.raises(TimeoutError, match=r"not processed 1 messages .* 1 not pulled, 0 in flight, .*never pulled"):
                    qmq_server.wait_drained("order.paid", "billing", timeout=0.01)

        async def test_on_an_event_loop(qmq_server):
            with pytest.raises(RuntimeError, match=r"await qmq_server.aio.wait_for"):
                qmq_server.wait_for("order.paid")
            with pytest.raises(RuntimeError, match=r"await qmq_server.aio.wait_drained"):
                qmq_server.wait_drained("order.paid", "billing")

        def test_a_group_that_never_pulls(qmq_server):
            with pytest.raises(TimeoutError, match="group 'billing' has not pulled subject 'order.paid' after 0.01 s"):
                qmq_server.wait_for_group("order.paid", "billing", timeout=0.01)

        def test_closed(qmq_server):
            qmq_server.close()
            with pytest.raises(RuntimeError, match="not started or already closed"):
                qmq_server.messages("order.paid")
        """
    )
    found.assert_outcomes(passed=4)


def test_a_run_without_the_fixtures_imports_nothing_of_the_project(run_tests: RunTests) -> None:
    found = run_tests(
        """
        import sys

        def test_modules():
            own = ("qmq", "broker_node", "delay_node", "metaserver", "console", "aiohttp", "numpy")
            assert [name for name in sys.modules if name.split(".")[0] in own] == []
        """
    )
    found.assert_outcomes(passed=1)


def test_the_missing_extra_is_named(run_tests: RunTests) -> None:
    found = run_tests(
        """
        import sys

        sys.modules["aiohttp"] = None

        def test_sent(qmq_server):
            pass
        """
    )
    found.assert_outcomes(errors=1)
    found.stdout.fnmatch_lines(["*qmq_server needs aiohttp: install pyqmq[[]testing[]]"])


def test_the_wheel_registers_the_plugin() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    assert project["project"]["entry-points"]["pytest11"] == {"qmq": "qmq_testing.plugin"}
    assert "qmq_testing*" in project["tool"]["setuptools"]["packages"]["find"]["include"]


def test_settings_of_an_overridden_fixture(run_tests: RunTests) -> None:
    found = run_tests(
        """
        import pytest
        from qmq import sync
        from qmq_testing import ServerSettings

        @pytest.fixture(params=[False, True])
        def qmq_settings(request):
            return ServerSettings(retry_delay_seconds=0, syncs=request.param)

        @pytest.fixture(autouse=True)
        def without_waiting(qmq_server, qmq_settings):
            assert qmq_server.nodes._broker.options.retry_delay_seconds == 0

        def test_a_retry_comes_immediately(qmq_server):
            with sync.Producer(qmq_server.url) as producer:
                producer.send("order.paid", {"order": 17})
            with sync.Consumer(qmq_server.url, "order.paid", "billing", start="earliest") as consumer:
                (delivery,) = consumer.pull(1, timeout=30)
                delivery.retry(cause="Busy")
                (delivery,) = consumer.pull(1, timeout=30)
                assert (delivery.attempt, delivery.retry_cause) == (2, "Busy")
                assert qmq_server.lag("order.paid", "billing") == 1
                delivery.ack()
            qmq_server.wait_drained("order.paid", "billing")
        """
    )
    found.assert_outcomes(passed=2)


def test_a_node_that_failed_fails_its_test(run_tests: RunTests) -> None:
    found = run_tests(
        """
        def test_sent(qmq_server):
            async def fail():
                qmq_server.nodes._delay.failure.set(OSError("disk on fire"))

            qmq_server.run(fail())

        def test_the_next_one_has_new_nodes(qmq_server):
            assert qmq_server.messages("order.paid") == []
        """
    )
    found.assert_outcomes(passed=2, errors=1)
    found.stdout.fnmatch_lines(["*OSError: disk on fire*"])


def test_sockets_threads_and_folders_end_with_the_run(run_tests: RunTests, pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import gc, os, threading
        import pytest

        seen = []

        def sockets():
            links = []
            for name in os.listdir("/proc/self/fd"):
                try:
                    links.append(os.readlink(f"/proc/self/fd/{name}"))
                except OSError:
                    pass
            return [link for link in links if link.startswith("socket:")]

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_teardown(item):
            seen.append(item.funcargs["qmq_server"].nodes._folder)
            assert os.path.exists(seen[-1])

        @pytest.hookimpl(trylast=True)
        def pytest_sessionfinish():
            gc.collect()
            assert len(seen) == 2
            assert [path for path in seen if os.path.exists(path)] == []
            assert [t.name for t in threading.enumerate() if t is not threading.main_thread()] == []
            assert sockets() == []
            print("nothing is left")
        """
    )
    found = run_tests(
        '''
        from qmq import Consumer, Producer

        async def test_closed_clients(qmq_server):
            async with Producer(qmq_server.url) as producer, Consumer(qmq_server.url, "order.paid", "billing"):
                await producer.send("order.paid", {"order": 17})

        def test_an_unused_server(qmq_server):
            pass
        ''',
        "-s",
    )  # fmt: skip
    found.assert_outcomes(passed=2)
    assert "nothing is left" in found.stdout.str()
