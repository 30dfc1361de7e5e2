"""Deletes subjects: on the nodes that serve them, then in the database."""

from console.groups import ask
from metaserver import queries
from metaserver.services import subjects as service
from metaserver.services.changes import Actor, Change, Conflict
from qmq.errors import ConnectionLost


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
    previews = ask(names, lambda node: node.drop_preview(subject))
    for answer in previews:
        if answer.value is None and answer.is_there:
            raise ConnectionLost(
                f"Broker group {answer.broker_group} can't be reached, so nothing was changed: {answer.reason}",
                code="broker_group.away",
            )
        if answer.value is not None and answer.value["reason"]:
            raise Conflict(f"{subject} on {answer.broker_group} {answer.value['reason']}", code="subject.not_empty")
    if dry_run:
        return change
    service.begin_delete(subject, actor=actor, reason=reason, expected_version=expected_version)
    answers = ask(names, lambda node: node.drop(subject))
    failed = {answer.broker_group: answer.reason for answer in answers if answer.value is None and answer.is_there}
    done = sorted(answer.broker_group for answer in answers if answer.broker_group not in failed)
    service.end_delete(subject, actor=actor, reason=reason, done=done, failed=failed)
    if failed:
        name, why = next(iter(failed.items()))
        raise Conflict(
            f"deleted on {', '.join(done) or 'none'}, but {name} failed: {why}; try again",
            code="subject.delete_in_part",
        )
    return change
