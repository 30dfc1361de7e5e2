"""Our own commands, from code 200 up. Bodies are maps of strings, so that fields can be added: unknown keys are ignored,
missing ones take their default."""

from dataclasses import dataclass
from typing import Literal

from qmq.errors import ProtocolError
from qmq.protocol.commands import Body
from qmq.protocol.primitives import Reader, Writer

StartPlace = Literal["earliest", "latest", "time", "sequence"]


class Fields:
    """Typed reading of a map of strings."""

    def __init__(self, body: Body | Reader) -> None:
        self._entries = (body if isinstance(body, Reader) else Reader(body)).strmap()

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """Entries whose key begins so, without that beginning."""
        return {key.removeprefix(prefix): value for key, value in self._entries.items() if key.startswith(prefix)}

    def text(self, key: str, default: str = "") -> str:
        return self._entries.get(key, default)

    def whole(self, key: str, default: int = 0) -> int:
        text = self._entries.get(key, "")
        try:
            return int(text) if text else default
        except ValueError as error:
            raise ProtocolError(f"{key} is {text[:40]!r}; must be a whole number") from error

    def real(self, key: str, default: float = 0.0) -> float:
        text = self._entries.get(key, "")
        try:
            return float(text) if text else default
        except ValueError as error:
            raise ProtocolError(f"{key} is {text[:40]!r}; must be a number") from error

    def flag(self, key: str) -> bool:
        return self._entries.get(key, "") == "1"


def encode_fields(**fields: object) -> bytes:
    """A map of strings; truth values as 1 and 0."""
    entries = {key: str(int(value)) if isinstance(value, int) else str(value) for key, value in fields.items()}
    return Writer().strmap(entries).done()


@dataclass(frozen=True, slots=True)
class NodeRegisterRequest:
    """NODE_REGISTER: one of our nodes tells who it is and how it is. `log_end` is in bytes, addresses are `host:port`.

    `request_type` is a `BrokerRequestType`, `role` a `Role`, `state` a `BrokerGroupState`, `policy_version` the version of
    the policy it applies, "" from a node that knows of none.
    """

    request_type: int
    broker_group: str
    node_id: str
    kind: str
    role: int
    address: str
    admin_address: str
    state: int
    epoch: int
    log_end: int
    started_at_ms: int
    version: str
    policy_version: str = ""

    def encode(self, version: int) -> bytes:
        return encode_fields(
            request_type=self.request_type,
            broker_group=self.broker_group,
            node_id=self.node_id,
            kind=self.kind,
            role=self.role,
            address=self.address,
            admin_address=self.admin_address,
            state=self.state,
            epoch=self.epoch,
            log_end=self.log_end,
            started_at_ms=self.started_at_ms,
            version=self.version,
            policy_version=self.policy_version,
        )

    @classmethod
    def decode(cls, body: Body, version: int) -> "NodeRegisterRequest":
        fields = Fields(body)
        return cls(
            fields.whole("request_type"),
            fields.text("broker_group"),
            fields.text("node_id"),
            fields.text("kind", "broker"),
            fields.whole("role"),
            fields.text("address"),
            fields.text("admin_address"),
            fields.whole("state", 1),
            fields.whole("epoch"),
            fields.whole("log_end"),
            fields.whole("started_at_ms"),
            fields.text("version"),
            fields.text("policy_version"),
        )


@dataclass(frozen=True, slots=True)
class NodeRegisterResponse:
    """Whether the node may serve, in which epoch and state, and how long its lease runs from when it asked.

    `policy_version` is the version of the policy it shall apply; "" when the metaserver knows of none: keep what there is.
    `code` names why a registration was refused, such as `node.address_bound`; "" when it was accepted.
    """

    accepted: bool
    reason: str
    epoch: int
    state: int
    lease_seconds: float
    heartbeat_seconds: float
    policy_version: str = ""
    code: str = ""

    def encode(self, version: int) -> bytes:
        return encode_fields(
            accepted=self.accepted,
            reason=self.reason,
            epoch=self.epoch,
            state=self.state,
            lease_seconds=self.lease_seconds,
            heartbeat_seconds=self.heartbeat_seconds,
            policy_version=self.policy_version,
            code=self.code,
        )

    @classmethod
    def decode(cls, body: Body, version: int) -> "NodeRegisterResponse":
        fields = Fields(body)
        return cls(
            fields.flag("accepted"),
            fields.text("reason"),
            fields.whole("epoch"),
            fields.whole("state", 1),
            fields.real("lease_seconds"),
            fields.real("heartbeat_seconds"),
            fields.text("policy_version"),
            fields.text("code"),
        )


@dataclass(frozen=True, slots=True)
class NodePolicyRequest:
    """NODE_POLICY: a node asks for the policy document of its broker group, because it has `policy_version`."""

    broker_group: str
    node_id: str
    policy_version: str

    def encode(self, version: int) -> bytes:
        return encode_fields(broker_group=self.broker_group, node_id=self.node_id, policy_version=self.policy_version)

    @classmethod
    def decode(cls, body: Body, version: int) -> "NodePolicyRequest":
        fields = Fields(body)
        return cls(fields.text("broker_group"), fields.text("node_id"), fields.text("policy_version"))


@dataclass(frozen=True, slots=True)
class NodePolicyResponse:
    """The document, JSON; empty when the node has it already, or the metaserver knows of none (`policy_version` is "").

    It stands behind the map as a block of its own: strings on the wire hold at most 32767 bytes.
    """

    policy_version: str
    document: bytes

    def encode(self, version: int) -> bytes:
        head = encode_fields(policy_version=self.policy_version)
        return Writer().raw(head).i32(len(self.document)).raw(self.document).done()

    @classmethod
    def decode(cls, body: Body, version: int) -> "NodePolicyResponse":
        reader = Reader(body)
        fields = Fields(reader)
        return cls(fields.text("policy_version"), bytes(reader.bytes_(reader.i32())))


@dataclass(frozen=True, slots=True)
class EnsureGroupRequest:
    """ENSURE_GROUP: make a consumer group at a place, or set it there (`only_if_new` false).

    `value` is milliseconds since the epoch for "time", a consume sequence for "sequence", else unused.
    """

    subject: str
    group: str
    start: str
    value: int
    only_if_new: bool
    broadcast: bool

    def encode(self, version: int) -> bytes:
        return encode_fields(
            subject=self.subject,
            group=self.group,
            start=self.start,
            value=self.value,
            only_if_new=self.only_if_new,
            broadcast=self.broadcast,
        )

    @classmethod
    def decode(cls, body: Body, version: int) -> "EnsureGroupRequest":
        fields = Fields(body)
        return cls(
            fields.text("subject"),
            fields.text("group"),
            fields.text("start", "latest"),
            fields.whole("value"),
            fields.flag("only_if_new"),
            fields.flag("broadcast"),
        )


@dataclass(frozen=True, slots=True)
class EnsureGroupResponse:
    """Whether the group was made, and the consume sequence it goes on at."""

    created: bool
    next_sequence: int

    def encode(self, version: int) -> bytes:
        return encode_fields(created=self.created, next_sequence=self.next_sequence)

    @classmethod
    def decode(cls, body: Body, version: int) -> "EnsureGroupResponse":
        fields = Fields(body)
        return cls(fields.flag("created"), fields.whole("next_sequence"))


@dataclass(frozen=True, slots=True)
class LeaveGroupRequest:
    """LEAVE_GROUP: a consumer ends; what it holds unacked goes to the retry subject at once. Answered empty."""

    subject: str
    group: str
    consumer_id: str

    def encode(self, version: int) -> bytes:
        return encode_fields(subject=self.subject, group=self.group, consumer_id=self.consumer_id)

    @classmethod
    def decode(cls, body: Body, version: int) -> "LeaveGroupRequest":
        fields = Fields(body)
        return cls(fields.text("subject"), fields.text("group"), fields.text("consumer_id"))
