"""Deletes subjects: on the nodes that serve them, then in the database."""

from console.cluster.asking import brokers
from console.cluster.progress import check_reachable
from metaserver import queries
from metaserver.errors import Conflict
from metaserver.services import subjects as service
from metaserver.services.changes import Actor, Change


def delete(
    subject: str, *, actor: Actor, reason: str = "", expected_version: int | None = None, dry_run: bool = False
) -> Change:
    """Delete an archived subject without messages, consumers and clients, with its consumer groups.

    Raises:
        NotFound, Stale.
        Conflict: it is not archived, in use or not empty, or a node failed.
        ConnectionLost: a broker group can't be reached; nothing was changed.
    """
    change = service.begin_delete(subject, actor=actor, expected_version=expected_version, dry_run=True)
    names = queries.broker_groups_of(subject) or []
    nodes = brokers(names)
    previews = nodes.ask(lambda _, node: node.drop_preview(subject))
    check_reachable(previews)
    for name, preview in previews.values.items():
        if preview["reason"]:
            raise Conflict(f"{subject} on {name} {preview['reason']}", code="subject.not_empty")
    if dry_run:
        return change
    service.begin_delete(subject, actor=actor, reason=reason, expected_version=expected_version)
    failed = nodes.ask(lambda _, node: node.drop(subject)).unreachable
    done = sorted(set(names) - set(failed))
    service.end_delete(subject, actor=actor, reason=reason, done=done, failed=failed)
    if failed:
        name, why = next(iter(failed.items()))
        raise Conflict(
            f"deleted on {', '.join(done) or 'none'}, but {name} failed: {why}; try again",
            code="subject.delete_in_part",
        )
    return change
