"""NODE_REGISTER with nodes and metaservers of versions without replication: each side reads what the other sends."""

from dataclasses import dataclass, fields, replace
from typing import Annotated, Any

import pytest

from qmq.errors import ProtocolError
from qmq.protocol.codes import ReplicaRole
from qmq.protocol.extensions import NodeRegisterRequest, NodeRegisterResponse
from qmq.protocol.kinds import Flag, Float, Int, MapInt, MapText, Text
from qmq.protocol.structures import Structure
from tests.unit.qmq.protocol.replication_examples import BODIES, REGISTER, REGISTERED, ROW

OLD_REGISTER = bytes.fromhex(
    "000d000c726571756573745f74797065000131000c62726f6b65725f67726f75700002673100076e6f64655f6964000467312d6100046b696e"
    "64000662726f6b65720004726f6c65000130000761646472657373000e31302e302e302e313a3230383831000d61646d696e5f616464726573"
    "73000e31302e302e302e313a323039383100057374617465000131000565706f636800013700076c6f675f656e64000435303030000d737461"
    "727465645f61745f6d73000d31363030303030303030303030000776657273696f6e0005302e312e30000e706f6c6963795f76657273696f6e"
    "00027637"
)
OLD_REGISTERED = bytes.fromhex(
    "0008000861636365707465640001310006726561736f6e0000000565706f636800013700057374617465000131000d6c656173655f7365636f"
    "6e64730003342e3000116865617274626561745f7365636f6e64730003312e30000e706f6c6963795f76657273696f6e000276370004636f64"
    "650000"
)
"""What nodes and metaservers sent before replication."""


@dataclass(frozen=True, slots=True)
class OldRequest(Structure):
    """NodeRegisterRequest as it was before replication."""

    request_type: Int
    broker_group: Text
    node_id: Text
    kind: Annotated[str, MapText(missing="broker")]
    role: Int
    address: Text
    admin_address: Text
    state: Annotated[int, MapInt(missing=1)]
    epoch: Int
    log_end: Int
    started_at_ms: Int
    version: Text
    policy_version: Text = ""


@dataclass(frozen=True, slots=True)
class OldResponse(Structure):
    """NodeRegisterResponse as it was before replication."""

    accepted: Flag
    reason: Text
    epoch: Int
    state: Annotated[int, MapInt(missing=1)]
    lease_seconds: Float
    heartbeat_seconds: Float
    policy_version: Text = ""
    code: Text = ""


def shared(value: Any, old: type[Any]) -> Any:
    """The fields of a value that an older version knows."""
    return old(**{field.name: getattr(value, field.name) for field in fields(old)})


@pytest.mark.parametrize(
    ("old", "body", "value"),
    [(OldRequest, OLD_REGISTER, REGISTER), (OldResponse, OLD_REGISTERED, REGISTERED)],
    ids=["request", "answer"],
)
def test_an_older_version_reads_what_it_knows(old: type[Any], body: bytes, value: Any) -> None:
    assert old.decode(body).encode() == body
    assert old.decode(value.encode()) == shared(value, old) == old.decode(body)


def test_a_node_of_an_older_version_is_read() -> None:
    found = NodeRegisterRequest.decode(OLD_REGISTER)
    assert shared(found, OldRequest) == OldRequest.decode(OLD_REGISTER)
    assert (found.boot_id, found.sync_address, found.rack, found.promotion_id, found.log_epoch) == ("", "", "", "", 0)
    assert (found.replica_role, found.high_watermark, found.master_silent_ms) == (ReplicaRole.NONE, -1, -1)
    assert (found.was_clean, found.problems, found.slaves) == (False, (), ())
    assert (found.led_row, found.counted, found.row_version, found.row_in_sync) == (None, (), 0, ())
    assert (found.stuck_ms, found.limitations, found.unreachable) == (0, (), ())


def test_the_answer_of_an_older_metaserver_is_read() -> None:
    found = NodeRegisterResponse.decode(OLD_REGISTERED)
    assert shared(found, OldResponse) == OldResponse.decode(OLD_REGISTERED)
    assert (found.row, found.database_is_away) == (None, False)


@pytest.mark.parametrize(("name", "value"), [("register", REGISTER), ("registered", REGISTERED)])
def test_what_a_later_version_adds_is_ignored(name: str, value: Any) -> None:
    assert type(value).decode(BODIES[name] + b"later") == value


def test_a_request_may_end_before_each_added_field_and_nowhere_else() -> None:
    body = BODIES["register"]
    nothing = {
        "unreachable": (), "limitations": (), "row_in_sync": (), "counted": (), "led_row": None, "slaves": (), "problems": (),
    }  # fmt: skip
    missing: dict[str, Any] = {}
    ends: dict[int, NodeRegisterRequest] = {}
    fields_from: list[tuple[int, str]] = []
    for name, empty in nothing.items():
        missing[name] = empty
        value = replace(REGISTER, **missing)
        # An empty list has two bytes, or one; a row that is missing has one.
        one_byte = {"unreachable": 1, "row_in_sync": 1, "counted": 1, "led_row": 1}
        empty_bytes = sum(one_byte.get(each, 2) for each in missing)
        end = len(value.encode()) - empty_bytes
        ends[end] = value
        fields_from.append((end, name))
    for end in range(len(body)):
        if end in ends:
            assert NodeRegisterRequest.decode(body[:end]) == ends[end]
            continue
        field = next((rf"\.{name}" for begin, name in fields_from if end > begin), "")
        with pytest.raises(ProtocolError, match=rf"^NodeRegisterRequest{field}: "):
            NodeRegisterRequest.decode(body[:end])


def test_an_answer_may_end_before_the_row_and_nowhere_else() -> None:
    body = BODIES["registered"]
    entries = len(replace(REGISTERED, row=None).encode()) - 1
    for end in range(len(body)):
        if end == entries:
            assert NodeRegisterResponse.decode(body[:end]) == replace(REGISTERED, row=None)
        else:
            field = "" if end < entries else r"\.row: GroupRow[.:]"
            with pytest.raises(ProtocolError, match=rf"^NodeRegisterResponse{field}"):
                NodeRegisterResponse.decode(body[:end])
    assert NodeRegisterResponse.decode(body).row == ROW
