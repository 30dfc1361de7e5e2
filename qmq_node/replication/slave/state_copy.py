"""How a slave reads the state of its master."""

import asyncio
from collections.abc import Callable

from qmq.errors import ConnectionLost, ProtocolError, QmqError
from qmq.net.caller import Caller
from qmq.net.discovery import split_address
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.extensions import Refusal
from qmq.protocol.replication import (
    COPY_BEYOND,
    COPY_NO_FILE,
    COPY_REMOVED,
    READ_COPY_BYTES_MAX,
    ReadCopyRequest,
    ReadCopyResponse,
)
from qmq_node.log.checkpoint import STATE_BYTES_MAX
from qmq_node.replication.slave.follow_outcomes import FollowerIdentity
from qmq_node.replication.slave_claim import prove
from qmq_node.replication.state_files import WantedBytes

READ_SECONDS = 30.0
"""Time limit for one answer. The master reads slowly on purpose."""
WAIT_SECONDS = 2.0
"""Pause between two attempts to find out whether the master's state can be read."""
_OTHER_STATE = (COPY_REMOVED, COPY_NO_FILE, COPY_BEYOND)
"""Codes of refusals after which the same request would be refused again."""


class StateRemoved(ConnectionLost):
    """The master does not keep the state any more whose files are copied: a newer one has to be read first."""


async def read_state(
    caller: Caller, identity: FollowerIdentity, on_read: Callable[[int, int], None]
) -> tuple[bytes, str]:
    """Return the master's newest checkpoint, as `qmq_node.log.checkpoint.decode_checkpoint` takes it, and the ID of its log.

    Args:
        on_read: called after each piece with the bytes read so far, and how many there are in all.

    Raises:
        ConnectionLost: the connection ended, or the master refuses now: try again.
        ProtocolError: the master's answers make no sense.
    """
    parts: list[bytes] = []
    position, size, total, log_id = 0, 0, 1, ""
    while size < total:
        answer = await _read(caller, identity, position, size)
        position, total, log_id = answer.position, answer.total_bytes, answer.log_id
        size += len(answer.data)
        if max(size, total) > STATE_BYTES_MAX:
            raise ProtocolError(f"the master's state has {max(size, total)} bytes, the limit is {STATE_BYTES_MAX}")
        parts.append(bytes(answer.data))
        on_read(size, total)
    return b"".join(parts), log_id


async def read_file(caller: Caller, identity: FollowerIdentity, position: int, wanted: WantedBytes) -> bytes:
    """Return the first of the bytes that are wanted of a file, at least one.

    Args:
        position: the log offset of the checkpoint that counts the file.

    Raises:
        StateRemoved: the master has another state by now.
        ConnectionLost, ProtocolError: as `read_state`.
    """
    size = min(wanted.bytes, READ_COPY_BYTES_MAX)
    answer = await _read(caller, identity, position, wanted.begin, size, wanted.file)
    if answer.total_bytes != wanted.file_bytes or len(answer.data) > size:
        raise ProtocolError(
            f"the master answered with {len(answer.data)} of {answer.total_bytes} bytes of {wanted.file}, requested were {size} of"
            f" {wanted.file_bytes}"
        )
    return bytes(answer.data)


async def wait_for_state(address: str, identity: FollowerIdentity, on_problem: Callable[[str], None]) -> None:
    """Return when the master accepts this slave and its state can be read: the slave's own log can then be replaced.

    Args:
        address: of the master's sync port.
        on_problem: called after each failed attempt with the reason. The next one follows after WAIT_SECONDS.
    """
    host, port = split_address(address)
    while True:
        caller = Caller(host, port)
        try:
            await caller.connect()
            await prove(caller, identity.secret, identity.claim)
            await _read(caller, identity, 0, 0, bytes_max=1)
            return
        except QmqError as error:
            on_problem(str(error))
        finally:
            await caller.close()
        await asyncio.sleep(WAIT_SECONDS)


async def _read(
    caller: Caller,
    identity: FollowerIdentity,
    position: int,
    begin: int,
    bytes_max: int = READ_COPY_BYTES_MAX,
    file: str = "",
) -> ReadCopyResponse:
    """Return a piece of the master's state from byte `begin` on. Raises as `read_state` and `read_file`.

    Args:
        position: as in the answers before; 0: the newest state.
        file: as in `ReadCopyRequest`.
    """
    request = ReadCopyRequest(
        identity.broker_group, identity.node_id, identity.epoch, identity.promotion_id, position, begin,
        bytes_max, file,
    )  # fmt: skip
    frame = await caller.call(Command.READ_COPY, request.encode(), timeout_s=READ_SECONDS)
    if frame.code != ResponseCode.SUCCESS:
        refusal = Refusal.decode(frame.body) if frame.code == ResponseCode.PARAM_ERROR else None
        why = f"the master's state can't be read: {refusal.message if refusal is not None else f'code {frame.code}'}"
        if refusal is not None and refusal.code in _OTHER_STATE:
            raise StateRemoved(why)
        raise ConnectionLost(why)
    answer = ReadCopyResponse.decode(frame.body)
    if not answer.data or answer.position == 0 or position not in (0, answer.position):
        raise ProtocolError(
            f"the master answered with {len(answer.data)} bytes of the state at {answer.position}, requested were bytes from"
            f" {begin} on of the one at {position}"
        )
    return answer
