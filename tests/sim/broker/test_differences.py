"""Deliberate differences from the official server that no other test holds; docs/conformance.md has the whole table."""

import asyncio
from pathlib import Path

import pytest

from qmq.protocol.codes import Command, ConsumeFrom, ResponseCode, SendResult
from qmq.protocol.commands import ConsumeManageRequest, TagFilter
from tests.support.drivers.in_process import connected, message, running_broker
from tests.support.waiting import eventually_async


async def test_an_ack_beyond_what_was_pulled_acks_what_was_pulled_only(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.begin()
        await client.send(*(message(n) for n in range(6)))
        await client.pull()
        assert await client.ack(0, 50) == ResponseCode.SUCCESS
        await client.send(*(message(n) for n in range(6, 10)))
        begin, found = await client.pull(last=50)
        assert found == [f"m{n}" for n in range(6, 10)]
        assert (await client.pull(last=begin - 1))[1] == found, "not acked, so delivered again"


async def test_a_pull_whose_filter_matches_nothing_stored_waits_for_a_message_that_matches(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.begin()
        await client.send(*(message(n, tags=("other",)) for n in range(3)))
        pull = asyncio.create_task(client.pull(filters=(TagFilter(1, ("a",)),), timeout_ms=60_000))
        await eventually_async(lambda: broker.handlers.polls.held == 1)
        await client.send(message(3, tags=("a",)))
        assert (await pull)[1] == ["m3"]


@pytest.mark.parametrize(("subject", "group"), [("", "g"), ("orders", "")])
async def test_consume_manage_without_a_name_is_a_parameter_error(tmp_path: Path, subject: str, group: str) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        request = ConsumeManageRequest(subject, group, ConsumeFrom.EARLIEST).encode()
        assert (await client.raw(Command.CONSUME_MANAGE, request)).code == ResponseCode.PARAM_ERROR


async def test_an_answer_to_a_pull_holds_eight_mebibytes_at_most(tmp_path: Path) -> None:
    async with running_broker(tmp_path, segment_bytes=64 << 20) as broker, connected(broker) as client:
        await client.begin()
        await client.send(*(message(n, size=30_000) for n in range(400)))
        found = (await client.pull(limit=400))[1]
        assert 250 < len(found) <= (8 << 20) // 30_000


async def test_overload_refuses_messages_as_busy_with_result_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        monkeypatch.setattr("qmq_node.requests.sends.UNSYNCED_BYTES_MAX", -1)
        failures = await client.send(message(1), message(2))
        assert {(item.result, item.remark) for item in failures.values()} == {(SendResult.BROKER_BUSY, "broker busy")}
