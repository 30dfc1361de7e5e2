"""Lists of delayed messages with a filter."""

from dataclasses import replace
from pathlib import Path

from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.delayed import FILTER_INVALID, ListDelayedRequest
from tests.support.drivers.in_process import connected, delayed, now_ms, small_system

HOUR = 3_600_000


async def test_a_list_has_what_matches_a_filter(tmp_path: Path) -> None:
    async with small_system(tmp_path) as system, connected(system.delay) as client:
        due = now_ms() + HOUR
        sent = [delayed(i, due + i * 1_000, data=f'{{"n": {i}}}', colour=f"c{i % 2}") for i in range(10)]
        assert (
            await client.send(*(replace(one, tags=("even",)) if i % 2 == 0 else one for i, one in enumerate(sent)))
            == {}
        )
        query = ListDelayedRequest("orders", due, due + HOUR, limit=100)

        async def found(text: str, limit: int = 100) -> list[str]:
            ids, cursor = [], ""
            while True:
                page = await client.listed(replace(query, filter=text, limit=limit, cursor=cursor))
                ids += [item.message.message_id for item in page.items]
                cursor = page.cursor
                if not cursor:
                    return ids

        assert await found("body.n > 7") == ["m8", "m9"]
        assert await found("colour=c1") == await found("colour=c1", limit=2) == ["m1", "m3", "m5", "m7", "m9"]
        assert await found('"even" in tags && body.n < 3') == ["m0", "m2"]
        assert await found(f"time > timestamp(0) + duration('{due // 1000 + 8}s')") == ["m8", "m9"]
        assert await found("nothing like this") == []
        wrong = replace(query, filter="bodyy.n > 1")
        frame = await client.caller.call(Command.LIST_DELAYED, wrong.encode(), timeout_s=30)
        assert frame.code == ResponseCode.PARAM_ERROR
        assert FILTER_INVALID.encode() in bytes(frame.body)
        assert b"did you mean 'body'?" in bytes(frame.body)
