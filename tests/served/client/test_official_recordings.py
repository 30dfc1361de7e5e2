"""Our client against recorded exchanges with an official QMQ cluster (tests/support/official/recorder.py)."""

from pathlib import Path

import pytest

from qmq.client.own_commands import OwnCommands
from qmq.net.caller import Caller
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.commands import (
    AckRequest,
    ClientRegisterRequest,
    ClientRegisterResponse,
    PullRequest,
    PullResponse,
    decode_send_response,
    encode_send_response,
)
from qmq.protocol.frames import Frame
from qmq.protocol.messages import decode_raws, encode_entry, encode_raw
from tests.support.drivers.wire import decode_entries
from tests.support.official.recording import FIRST_OWN_COMMAND, LAST_PROBED_COMMAND, METASERVER, Recording
from tests.support.official.replay import replaying
from tests.support.official.scenarios import SCENARIOS

FOLDER = Path(__file__).parent / "recordings"
OWN_COMMANDS = "own_commands"
NAMES = [OWN_COMMANDS, *SCENARIOS]


def recording_of(name: str) -> Recording:
    return Recording.load(FOLDER / f"{name}.json")


def test_every_recording_belongs_to_a_scenario() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(NAMES)


@pytest.mark.parametrize("name", SCENARIOS)
async def test_the_client_does_with_the_recorded_server_what_it_did_with_the_real_one(name: str) -> None:
    async with replaying(recording_of(name), recording_of(OWN_COMMANDS)) as replay:
        await SCENARIOS[name](replay.scene)


async def test_a_client_that_repeats_own_commands_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    async def always_send(
        self: OwnCommands, caller: Caller, command: Command, body: bytes, *, timeout_s: float, is_optional: bool = False
    ) -> Frame | None:
        frame = await caller.call(command, body, timeout_s=timeout_s)
        return None if frame.code == ResponseCode.UNKNOWN_CODE else frame

    monkeypatch.setattr(OwnCommands, "call", always_send)
    with pytest.raises(AssertionError, match="own command 202 although the node has answered an own command"):
        async with replaying(recording_of("pull_and_ack"), recording_of(OWN_COMMANDS)) as replay:
            await SCENARIOS["pull_and_ack"](replay.scene)


@pytest.mark.parametrize("name", NAMES)
def test_recorded_bytes_decode_and_encode_to_the_same_bytes(name: str) -> None:
    for _, item, answered in recording_of(name).pairs():
        request = item.frame
        body = bytes(request.body)
        match request.code:
            case Command.SEND_MESSAGE:
                assert b"".join(encode_entry(message) for message in decode_entries(body)) == body
            case Command.PULL_MESSAGE:
                assert PullRequest.decode(body, request.version).encode(request.version) == body
            case Command.ACK_REQUEST:
                assert AckRequest.decode(body, request.version).encode(request.version) == body
            case Command.CLIENT_REGISTER:
                assert ClientRegisterRequest.decode(body, request.version).encode(request.version) == body
        if answered is not None:
            check_answer(request, answered[1].frame)


def check_answer(request: Frame, frame: Frame) -> None:
    """An answer of the official server."""
    assert (frame.flag, frame.request_code, frame.version) == (1, request.code, request.version)
    body = bytes(frame.body)
    match request.code:
        case Command.SEND_MESSAGE:
            assert encode_send_response(decode_send_response(body).values()) == body
        case Command.PULL_MESSAGE if frame.code == ResponseCode.SUCCESS:
            answer = PullResponse.decode(body, frame.version)
            assert answer is not None
            assert b"".join(encode_raw(message) for message in decode_raws(answer.raws)) == bytes(answer.raws)
            assert answer.encode(frame.version) == body
        case Command.CLIENT_REGISTER:
            assert ClientRegisterResponse.decode(body, frame.version).encode(frame.version) == body
        case _:
            assert not body


def test_every_official_node_answers_every_own_command_with_unknown_code() -> None:
    recording = recording_of(OWN_COMMANDS)
    answered = {
        (item.node, item.frame.code): answer[1].frame.code
        for _, item, answer in recording.pairs()
        if answer is not None
    }
    nodes, codes = (METASERVER, "g1", "slave", "d1"), range(FIRST_OWN_COMMAND, LAST_PROBED_COMMAND + 1)
    assert answered == {(node, code): ResponseCode.UNKNOWN_CODE for node in nodes for code in codes}
    assert {command for command in Command if command >= FIRST_OWN_COMMAND} <= set(codes)
