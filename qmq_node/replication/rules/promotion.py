"""Which member a metaserver promotes, and what it does about a membership that was restored from a backup. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from qmq.protocol.reasons import Code, Reason
from qmq_node.replication.rules.membership import ChangeRejected, Membership, Promotion

OTHER_FOLDER = Reason.of(Code.OTHER_FOLDER)


@dataclass(frozen=True, slots=True)
class MemberReport:
    """The newest heartbeat of a member."""

    epoch: int
    """The highest epoch on its disk."""
    log_epoch: int
    """The epoch of its newest commit."""
    synced_end: int
    incarnation: str
    """Of its data folder."""
    boot_id: str
    """Of its process."""
    problem: str = ""
    """Why it can't be master: damage, a failed disk, an unfinished copy, or a log that ends earlier than it reported before."""
    receives_from_master: bool = False
    """Whether it still receives commits of the membership's master."""
    objections: int = 0
    """How much speaks against it, such as a full disk: a member with less is preferred."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """Why no member is promoted."""

    reason: str


def choose(
    membership: Membership,
    newest_place: tuple[int, int],
    reports: Mapping[str, MemberReport],
    promotion_id: str,
    preferred: tuple[str, ...] = (),
) -> Promotion | Blocked:
    """Return the promotion of the best member of the in-sync set, or why there is none.

    The best has the fewest objections. Of those, it has the longest log, so that the fewest sends without an answer are lost. Of
    equal ones, the first in `preferred` is chosen.

    Args:
        newest_place: the highest place of the membership that the metaserver has seen.
        reports: of the members whose heartbeats arrive.
    """
    try:
        membership.check_not_restored(max([newest_place, *((report.epoch, 0) for report in reports.values())]))
    except ChangeRejected as rejected:
        return Blocked(str(rejected))
    able: list[tuple[int, int, int, int, str]] = []
    reasons: list[str] = []
    for member in membership.in_sync:
        report = reports.get(member)
        if report is None:
            reasons.append(f"node {member} does not send heartbeats")
        elif report.incarnation != membership.incarnation_of(member):
            reasons.append(f"node {member}: {OTHER_FOLDER}")
        elif report.problem:
            reasons.append(f"node {member}: {report.problem}")
        elif report.receives_from_master:
            reasons.append(f"node {member} still receives commits of the master")
        else:
            place = preferred.index(member) if member in preferred else len(preferred)
            able.append((report.objections, -report.log_epoch, -report.synced_end, place, member))
    if not able:
        outside = [member for member in membership.members if member not in membership.in_sync]
        reasons += [f"node {member} is not in sync" for member in outside]
        return Blocked("; ".join(reasons))
    best = min(able)[-1]
    return Promotion(
        membership.epoch, membership.version, best, reports[best].boot_id, membership.epoch + 1, promotion_id
    )


def recovered(
    membership: Membership, newest_place: tuple[int, int], reported: Membership, counted: frozenset[str]
) -> Membership | None:
    """Return the membership that replaces one restored from a backup, or None if the report is not the last master's.

    Args:
        membership: as it is stored, below `newest_place`.
        reported: what a master knows to be stored of its epoch.
        counted: the members that this master counts (`Master.counted`). Each has everything that it acknowledged.
    """
    if reported.epoch < newest_place[0]:
        return None
    version = max(membership.version, newest_place[1], reported.version)
    return replace(reported, version=version).with_in_sync(counted)
