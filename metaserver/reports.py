"""What nodes report of their part in replication, as it is stored for the console, commands and alerts. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from qmq.conversion import convert
from qmq.protocol.codes import ReplicaRole
from qmq.protocol.extensions import NodeRegisterRequest
from qmq.protocol.reasons import Code, Reason, joined

_DAMAGED = (Code.LOG_DAMAGED, Code.LOG_LACKS_END)
UNFIT_ROLES = tuple(role.name.lower() for role in (ReplicaRole.SPARE, ReplicaRole.COPYING, ReplicaRole.FAILED))
"""Roles in which a node can't be promoted."""


@dataclass(frozen=True, slots=True)
class StoredReport:
    """The last heartbeat of a node with replication, or of a delay node. Offsets are in bytes."""

    role: str
    """A `ReplicaRole` in lower case; "none" for a node that serves as the only member."""
    epoch: int
    """The highest one on its disk."""
    log_epoch: int
    log_end: int
    """What it has synced."""
    high_watermark: int
    """-1: it knows none."""
    master_silent_ms: int
    """Time since it received something of its master; -1: it never has."""
    problems: tuple[Reason, ...] = ()
    slaves: Mapping[str, int] = field(default_factory=dict)
    """Of a master: by node id, up to where each slave that follows has confirmed."""
    incarnation: str = ""
    """Of its data folder."""
    boot_id: str = ""
    """Of its process."""
    newest_place: tuple[int, int] = (0, 0)
    """Epoch and version of the newest membership that the metaserver knew which stored the report.

    `BrokerGroup.known_epoch` and `known_version` do not replace it: they are recorded once a metaserver has read a
    restored membership, and a report is stored with its heartbeat, also before that. Without it the console could
    promote by the membership of a backup in between.
    """
    limitations: tuple[Reason, ...] = ()
    """Why another node should be promoted if one can be."""
    pending_messages: int = -1
    """Of a delay node: messages that are not delivered, held ones included; -1: it is none."""
    damaged_bytes: int = 0
    """Of its log: damaged, and not known to be lost to the group."""
    lacks_to: int = 0
    """Up to where acknowledged bytes are missing at the end of its log; 0: none are."""

    @property
    def is_only_damaged(self) -> bool:
        """Whether nothing but damage of its log prevents its promotion, so that an operator may accept the loss of that."""
        return bool(self.problems) and all(problem.code in _DAMAGED for problem in self.problems)

    @classmethod
    def of(cls, request: NodeRegisterRequest, newest_place: tuple[int, int]) -> Self:
        """Return what a heartbeat says."""
        return convert(
            cls,
            request,
            role=request.replica_role.name.lower(),
            log_epoch=max(1, request.log_epoch),
            slaves={slave.node_id: slave.end for slave in request.slaves},
            newest_place=newest_place,
        )

    @classmethod
    def decode(cls, stored: Mapping[str, Any]) -> Self | None:
        """Return a report that was stored as `encoded`; None for a node that has none."""
        if not stored:
            return None
        epoch, version = stored["newest_place"]
        reasons = {name: tuple(map(Reason.from_json, stored[name])) for name in ("problems", "limitations")}
        return cls(**{**stored, **reasons, "newest_place": (epoch, version)})

    def encoded(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        return {
            **{name: getattr(self, name) for name in self.__slots__},
            "problems": [reason.as_json() for reason in self.problems],
            "limitations": [reason.as_json() for reason in self.limitations],
            "slaves": dict(self.slaves),
            "newest_place": list(self.newest_place),
        }


def unfit_reason(
    role: str, problems: tuple[Reason, ...], log_place: tuple[int, int], highest_place: tuple[int, int]
) -> Reason:
    """Return why a node can't be promoted, whether it is in sync or not; "" if it can.

    Args:
        role: a `ReplicaRole` in lower case.
        log_place: epoch of its newest commit and end of its log.
        highest_place: the highest that it reported before.
    """
    if problems:
        return joined(problems)
    if role in UNFIT_ROLES:
        return Reason.of(Code.ROLE, role=role)
    if log_place < highest_place:
        return Reason.of(Code.LOG_SHORTER, end=log_place[1], highest=highest_place[1])
    return Reason()
