"""Our own commands, from code 200 up. Bodies are maps of strings, so that fields can be added: see `structures`."""

from dataclasses import dataclass
from typing import Annotated

from qmq.protocol.kinds import Block, Flag, Float, Int, MapHex, MapInt, MapText, Text
from qmq.protocol.structures import Structure

State = Annotated[int, MapInt(missing=1)]
"""A `BrokerGroupState`; a node that reports none reads and writes."""


@dataclass(frozen=True, slots=True)
class Refusal(Structure):
    """The answer with header code PARAM_ERROR: why our own command was refused. `code` is one of docs/reference/errors.md."""

    code: Text
    message: Text


@dataclass(frozen=True, slots=True)
class NodeRegisterRequest(Structure):
    """One of our nodes reports its identity and state. `log_end` is in bytes, addresses are `host:port`.

    `request_type` is a `BrokerRequestType`, `role` a `Role`, `state` a `BrokerGroupState`, `policy_version` the version of
    the policy it applies, "" from a node that has none.
    """

    request_type: Int
    broker_group: Text
    node_id: Text
    kind: Annotated[str, MapText(missing="broker")]
    role: Int
    address: Text
    admin_address: Text
    state: State
    epoch: Int
    log_end: Int
    started_at_ms: Int
    version: Text
    policy_version: Text = ""


@dataclass(frozen=True, slots=True)
class NodeRegisterResponse(Structure):
    """Whether the node may serve, in which epoch and state, and how long its lease runs from the moment of its request.

    `policy_version` is the version of the policy it must apply; "" when the metaserver has none: the node keeps what it has.
    `code` names why a registration was refused, such as `node.address_bound`; "" when it was accepted.
    """

    accepted: Flag
    reason: Text
    epoch: Int
    state: State
    lease_seconds: Float
    heartbeat_seconds: Float
    policy_version: Text = ""
    code: Text = ""


@dataclass(frozen=True, slots=True)
class NodePolicyRequest(Structure):
    """A node requests the policy document of its broker group, because it has `policy_version`."""

    broker_group: Text
    node_id: Text
    policy_version: Text


@dataclass(frozen=True, slots=True)
class NodePolicyResponse(Structure):
    """The document, JSON; empty when the node has it already, or the metaserver has none (`policy_version` is "").

    It is a block behind the map: strings on the wire hold at most 32767 bytes.
    """

    policy_version: Text
    document: Annotated[bytes, Block(is_copied=True)]


@dataclass(frozen=True, slots=True)
class EnsureGroupRequest(Structure):
    """Create a consumer group at a position, or set it there (`only_if_new` false).

    `start` is "earliest", "latest", "time" or "sequence"; `value` is milliseconds since the epoch for "time", a consume sequence
    for "sequence", else unused.
    """

    subject: Text
    group: Text
    start: Annotated[str, MapText(missing="latest")]
    value: Int
    only_if_new: Flag
    broadcast: Flag


@dataclass(frozen=True, slots=True)
class EnsureGroupResponse(Structure):
    """Whether the group was created, and the consume sequence it continues at."""

    created: Flag
    next_sequence: Int


@dataclass(frozen=True, slots=True)
class LeaveGroupRequest(Structure):
    """A consumer ends; its messages that are not acknowledged go to the retry subject at once."""

    subject: Text
    group: Text
    consumer_id: Text


NONCE_BYTES = 32
PROOF_BYTES = 32
CLIENT_CONTEXT = "pyqmq connection v1 client"
SERVER_CONTEXT = "pyqmq connection v1 server"
"""Contexts of the two proofs: neither can be used as the other."""

Nonce = Annotated[bytes, MapHex(NONCE_BYTES)]
Proof = Annotated[bytes, MapHex(PROOF_BYTES)]


@dataclass(frozen=True, slots=True)
class AuthenticateRequest(Structure):
    """`proof` is empty in the first request. `purpose` is "node" or "console", and part of both proofs."""

    purpose: Text
    nonce: Nonce
    proof: Proof = b""


@dataclass(frozen=True, slots=True)
class AuthenticateResponse(Structure):
    """The server's nonce, and in the second answer its proof."""

    nonce: Nonce
    proof: Proof = b""
