"""Recorded exchanges with an official QMQ cluster: every frame that a client and a node exchanged, in order.

A recording is a JSON file with one frame per line: the bytes as they were on the wire, and a note that says what they are.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from qmq.errors import QmqError
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.commands import (
    AckRequest,
    ClientRegisterRequest,
    ClientRegisterResponse,
    PullRequest,
    PullResponse,
    decode_send_response,
)
from qmq.protocol.frames import HEADER_BYTES, Frame, FrameReader
from qmq.protocol.messages import Message, decode_raws
from tests.support.drivers.feeding import feed
from tests.support.drivers.wire import decode_entries

METASERVER = "metaserver"
FIRST_OWN_COMMAND = 200
LAST_PROBED_COMMAND = 255

Sender = Literal["client", "server"]


def whole(frame: Frame) -> bytes:
    """The bytes of a frame with its header."""
    return bytes(frame.buffer[frame.body_at - HEADER_BYTES : frame.body_at + len(frame.body)])


@dataclass(frozen=True, slots=True)
class Exchanged:
    """One frame as it was on the wire. `node` is "metaserver" or the name of a broker or delay group."""

    at_ms: int
    node: str
    connection: int
    sender: Sender
    note: str
    data: bytes

    @property
    def frame(self) -> Frame:
        (frame,) = feed(FrameReader(), self.data)
        return frame


@dataclass(frozen=True, slots=True)
class Page:
    """One answer of the metaserver's HTTP port; `body` is cut after some characters."""

    path: str
    status: int
    body: str


@dataclass(slots=True)
class Recording:
    """What one scenario exchanged."""

    scenario: str
    description: str
    server: str
    recorded_at: str
    nodes: dict[str, str] = field(default_factory=dict)
    """Addresses by node, as the metaserver gave them."""
    pages: list[Page] = field(default_factory=list)
    frames: list[Exchanged] = field(default_factory=list)

    def pairs(self) -> Iterator[tuple[int, Exchanged, tuple[int, Exchanged] | None]]:
        """Each request with its place, and its answer with the answer's place; None: it was not answered."""
        answers: dict[tuple[str, int, int, int], list[tuple[int, Exchanged]]] = {}
        for place, item in enumerate(self.frames):
            if item.sender == "server":
                frame = item.frame
                key = (item.node, item.connection, frame.opaque, frame.request_code)
                answers.setdefault(key, []).append((place, item))
        for place, item in enumerate(self.frames):
            if item.sender == "client":
                frame = item.frame
                found = answers.get((item.node, item.connection, frame.opaque, frame.code))
                yield place, item, found.pop(0) if found else None

    def save(self, path: Path) -> None:
        """Write the file, one frame per line."""
        head = {
            "scenario": self.scenario,
            "description": self.description,
            "server": self.server,
            "recorded_at": self.recorded_at,
            "nodes": self.nodes,
        }
        lines = [f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}," for key, value in head.items()]
        pages = [{"path": page.path, "status": page.status, "body": page.body} for page in self.pages]
        frames = [
            {
                "ms": item.at_ms,
                "node": item.node,
                "connection": item.connection,
                "from": item.sender,
                "note": item.note,
                "hex": item.data.hex(),
            }
            for item in self.frames
        ]
        text = "{\n" + "\n".join(lines) + "\n"
        text += '  "pages": [\n' + _rows(pages) + "  ],\n" + '  "frames": [\n' + _rows(frames) + "  ]\n}\n"
        path.write_text(text)

    @classmethod
    def load(cls, path: Path) -> "Recording":
        """Read a file that `save` wrote."""
        content = json.loads(path.read_text())
        return cls(
            content["scenario"],
            content["description"],
            content["server"],
            content["recorded_at"],
            content["nodes"],
            [Page(page["path"], page["status"], page["body"]) for page in content["pages"]],
            [
                Exchanged(
                    row["ms"], row["node"], row["connection"], row["from"], row["note"], bytes.fromhex(row["hex"])
                )
                for row in content["frames"]
            ],
        )


def _rows(rows: list[dict[str, Any]]) -> str:
    texts = [f"    {json.dumps(row, ensure_ascii=False)}" for row in rows]
    return ",\n".join(texts) + "\n" if texts else ""


# --- notes ----------------------------------------------------------------------------------------------------------


def describe_request(frame: Frame) -> str:
    """A request in words."""
    try:
        match frame.code:
            case Command.SEND_MESSAGE:
                return f"SEND_MESSAGE {_messages(decode_entries(frame.body, verify=False))}"
            case Command.PULL_MESSAGE:
                pull = PullRequest.decode(frame.body, frame.version)
                return (
                    f"PULL_MESSAGE {pull.subject} group={pull.group} consumer={pull.consumer_id} limit={pull.limit}"
                    f" begin={pull.pull_begin} last={pull.pull_last} timeout_ms={pull.timeout_ms} filters={len(pull.filters)}"
                )
            case Command.ACK_REQUEST:
                ack = AckRequest.decode(frame.body, frame.version)
                what = "heartbeat" if ack.is_heartbeat else f"{ack.pull_begin}-{ack.pull_last}"
                return f"ACK_REQUEST {ack.subject} group={ack.group} consumer={ack.consumer_id} {what}"
            case Command.CLIENT_REGISTER:
                request = ClientRegisterRequest.decode(frame.body, frame.version)
                return f"CLIENT_REGISTER {request.subject} type={request.client_type} group={request.group}"
    except QmqError as error:
        return f"command {frame.code}: {error}"
    return f"own command {frame.code}" if frame.code >= FIRST_OWN_COMMAND else f"command {frame.code}"


def describe_answer(request: Frame, frame: Frame) -> str:
    """An answer in words."""
    code = f"{frame.code} {ResponseCode(frame.code).name}" if frame.code in list(ResponseCode) else str(frame.code)
    text = ""
    if frame.code == ResponseCode.SUCCESS and frame.body:
        match request.code:
            case Command.SEND_MESSAGE:
                failures = decode_send_response(frame.body).values()
                text = ", ".join(f"{item.message_id}: {item.result} {item.remark}" for item in failures)
            case Command.PULL_MESSAGE:
                answer = PullResponse.decode(frame.body, frame.version)
                assert answer is not None
                text = f"begin={answer.pull_begin} {_messages(decode_raws(answer.raws))}"
            case Command.CLIENT_REGISTER:
                route = ClientRegisterResponse.decode(frame.body, frame.version)
                groups = ", ".join(f"{item.name} {item.master} state={item.state}" for item in route.broker_groups)
                text = f"{route.subject} {'online' if route.online else 'offline'}: {groups or 'no broker group'}"
    return f"answer to {describe_request(request).split(' ')[0]}: {code} {text}".rstrip()


def _messages(messages: list[Message]) -> str:
    subjects = sorted({message.subject for message in messages})
    return f"{' '.join(subjects)}: {' '.join(message.message_id for message in messages)}"
