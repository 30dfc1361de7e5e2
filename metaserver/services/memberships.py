"""Changes of a broker group's membership: who is master, and who is in sync. The rules are those of
`qmq_node.replication.rules`."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from metaserver import queries
from metaserver.domain import columns
from metaserver.errors import NotFound
from metaserver.memory.membership_wishes import MembershipWish
from metaserver.models import BrokerGroup, Node
from metaserver.services import audit
from metaserver.services.changes import Actor
from qmq_node.replication.rules.membership import ChangeRejected, Membership

WHY = "why"
"""What the audit log has in `after` in addition to the changed columns: the reason as code, values and text."""
NOT_CHANGED = ("name", "in_sync_min", "copies", "known_place")
"""Columns that no change of the membership sets: what operators decide, and what `record_known` sets."""


def stored_membership(name: str) -> Membership:
    """Return the membership of a broker group. Raises NotFound."""
    group = queries.broker_group(name)
    if group is None:
        raise NotFound(f"Broker group {name!r} not found.", code="broker_group.unknown")
    return group.membership


@transaction.atomic
def change_membership(
    name: str, wish: MembershipWish, newest_place: tuple[int, int], *, actor: Actor, also: Mapping[str, Any]
) -> Membership:
    """Change a broker group's membership with one conditional UPDATE, and write the audit entry of it; return the
    changed membership.

    If the database raises an error, it is unknown whether the change was made: read the membership again.

    Args:
        newest_place: the highest epoch and version of the membership that the caller has seen.
        also: what the audit log says in addition to the changed columns.

    Raises:
        LogLost: what is stored of the log of a node that is to be promoted is above `wish.log`.
        ChangeRejected: the rules do not allow the change, or the membership has changed meanwhile.
        NotFound: there is no such broker group.
    """
    membership = stored_membership(name)
    changed = wish.applied_to(membership, newest_place, _stored_log)
    # Not a lock and a check: the condition holds in every database at every isolation level, and with a copy that lags behind.
    known = {"known_epoch": membership.known_place[0], "known_version": membership.known_place[1]}
    count = BrokerGroup.objects.filter(
        name=name, epoch=membership.epoch, in_sync_version=membership.version, **known
    ).update(**_columns(changed), updated_at=timezone.now())
    if count != 1:
        raise ChangeRejected(f"the membership of broker group {name} has changed meanwhile", is_stale=True)
    before, after = _columns(membership), _columns(changed)
    differ = [column for column in after if before[column] != after[column]]
    audit.record(
        actor,
        f"broker_group.{wish.action}",
        name,
        reason=wish.reason,
        before={column: _in_audit(before[column]) for column in differ},
        after={column: _in_audit(after[column]) for column in differ} | dict(also),
        broker_group=name,
    )
    return changed


def _stored_log(node_id: str) -> tuple[int, int, int] | None:
    return Node.objects.filter(node_id=node_id).values_list("log_end_version", "log_epoch", "log_end").first()


def record_known(name: str, place: tuple[int, int]) -> None:
    """Record that a place of a broker group's membership is known; nothing happens if the stored membership is as new,
    or that is recorded.

    It stays when the membership is up to date again, and means nothing then.
    """
    epoch, version = place
    is_older = Q(epoch__lt=epoch) | Q(epoch=epoch, in_sync_version__lt=version)
    is_unrecorded = Q(known_epoch__lt=epoch) | Q(known_epoch=epoch, known_version__lt=version)
    BrokerGroup.objects.filter(is_older & is_unrecorded, name=name).update(known_epoch=epoch, known_version=version)


def _columns(membership: Membership) -> dict[str, Any]:
    """The columns that a change sets."""
    found = {name: list(value) if isinstance(value, tuple) else value for name, value in columns(membership).items()}
    changed = {name: value for name, value in found.items() if name not in NOT_CHANGED}
    return changed | {"promotion_id": UUID(membership.promotion_id) if membership.promotion_id else None}


def _in_audit(value: Any) -> Any:
    return str(value) if isinstance(value, UUID) else value
