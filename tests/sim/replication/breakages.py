"""Deliberate breakages of the rules of replication. A walk drawn from some seed must find what each of them breaks."""

from contextlib import ExitStack
from dataclasses import dataclass, replace

from tests.sim.replication.group import Bounds
from tests.sim.replication.walk import Found, walk_one
from tests.support.source_change import SourceChange

SEEDS_MAX = 2_000
STEPS = 120
SMALL = Bounds(values=3, epochs=4, crashes=3)
THREE = replace(SMALL, members=3)
NEW_DISKS = replace(SMALL, in_sync_min=1, new_disks=1, resigns=True)
OPERATOR = replace(SMALL, in_sync_min=1, operator_promotions=1)
REMOVALS = replace(SMALL, in_sync_min=1, removals=2, syncs_later=True)
RULES = "qmq_node.replication.rules."


ANY_PROCESS = (
    "roles:Identity.may_lead",
    "(self.boot_id, self.incarnation) == (membership.master_boot_id, membership.incarnation_of(self.node_id))",
    "True",
)
"""A process that was not promoted may lead."""


@dataclass(frozen=True)
class RuleBreakage:
    """Changes of rules that together break one promise."""

    name: str
    changes: tuple[tuple[str, str, str], ...]
    """Where in `qmq_node.replication.rules` or in the model, the text to replace, and its replacement."""
    bounds: tuple[Bounds, ...] = (SMALL, THREE)
    """In each of these walks some seed finds it."""

    def find(self, bounds: Bounds) -> tuple[int, Found]:
        """The first seed that finds it, and what it found; the last seed if none does."""
        with ExitStack() as stack:
            for where, old, new in self.changes:
                path = where if where.startswith("tests.") else RULES + where
                stack.enter_context(SourceChange(self.name, path, old, new).applied())
            for seed in range(1, SEEDS_MAX + 1):
                found = walk_one(seed, bounds, STEPS)
                if found.broken:
                    break
        return seed, found


BREAKAGES = (
    RuleBreakage(
        "a process leads that was not promoted",
        (ANY_PROCESS,),
        (NEW_DISKS, replace(NEW_DISKS, members=3)),
    ),
    RuleBreakage(
        "a master accepts a slave that knows a newer epoch",
        (
            ("following:check_member", "if epoch != membership.epoch:", "if epoch < membership.epoch:"),
            (
                "following:check_member",
                "if promotion_id == membership.promotion_id else FollowResult.OTHER_PROMOTION",
                "",
            ),
            ("slave:Slave.received", "if (epoch, promotion_id) != (self.epoch, self.promotion_id):", "if False:"),
        ),
        (THREE,),
    ),
    RuleBreakage(
        "a slave that is gone counts no longer before the membership says so",
        (
            (
                "master:Master.counted",
                "return frozenset(self.membership.in_sync) | {slave for slave, _ in self.requested} | {self.node_id}",
                "return frozenset(session.slave for session in self.sessions) | {self.node_id}",
            ),
        ),
        (replace(SMALL, in_sync_min=1), replace(THREE, in_sync_min=1)),
    ),
    RuleBreakage(
        "a member that is not in sync is promoted",
        (
            ("promotion:choose", "for member in membership.in_sync:", "for member in membership.members:"),
            ("membership:Promotion.applied_to", "if self.candidate not in membership.in_sync:", "if False:"),
            (
                "membership:Membership.with_in_sync",
                "if member in in_sync",
                "if member in in_sync or member != self.master",
            ),
        ),
        (replace(SMALL, in_sync_min=1), replace(THREE, in_sync_min=1)),
    ),
    RuleBreakage(
        "a restarted master resumes in its epoch",
        (
            ANY_PROCESS,
            ("roles:step_for", "Step.LEAD if membership.epoch > state.epoch else Step.WAIT", "Step.LEAD"),
        ),
        (replace(SMALL, syncs_later=True), replace(THREE, syncs_later=True)),
    ),
    RuleBreakage(
        "a restarted master that is alone in its set resumes, and confirmations carry lengths only",
        (
            ANY_PROCESS,
            (
                "roles:step_for",
                "Step.LEAD if membership.epoch > state.epoch else Step.WAIT",
                "Step.LEAD if membership.epoch > state.epoch or membership.in_sync == (node.node_id,) else Step.WAIT",
            ),
            ("master:Master.confirmed", "if session is None or session.number != number:", "if session is None:"),
            ("master:Master.confirmed", "if crc != own_crc:", "if False:"),
            ("following:answer_follow", "theirs.end > own.end", "False"),
        ),
        (replace(SMALL, syncs_later=True, in_sync_min=1),),
    ),
    RuleBreakage(
        "a log is truncated by length",
        (
            (
                "following:answer_follow",
                "common = theirs.chain.common_end(theirs.end, own.chain, own.end)",
                "common = min(theirs.end, own.end)",
            ),
        ),
    ),
    RuleBreakage(
        "a slave counts only when the master has learned that it is in sync",
        (
            (
                "master:Master.counted",
                "frozenset(self.membership.in_sync) | {slave for slave, _ in self.requested} | {self.node_id}",
                "frozenset(self.membership.in_sync) | {self.node_id}",
            ),
        ),
        (replace(SMALL, in_sync_min=1), replace(THREE, in_sync_min=1)),
    ),
    RuleBreakage(
        "a slave is added before it has what the log had when the epoch began",
        (("master:Master.may_add", "max(self.high_watermark, self.begin)", "self.high_watermark"),),
        (replace(THREE, in_sync_min=1, resigns=True),),
    ),
    RuleBreakage(
        "a slave confirms what it has not synced",
        (("slave:Slave.confirmable_end", "None if self.is_copying else self.synced_end", "self.end"),),
        (replace(SMALL, syncs_later=True), replace(THREE, syncs_later=True)),
    ),
    RuleBreakage(
        "a master counts what it has not synced",
        (
            (
                "master:Master._reached",
                "min([synced_end, *ends])",
                "min(ends, default=synced_end)",
            ),
        ),
        (replace(SMALL, syncs_later=True), replace(THREE, syncs_later=True)),
    ),
    RuleBreakage(
        "confirmations of an earlier session count, by length",
        (
            ("master:Master.confirmed", "if session is None or session.number != number:", "if session is None:"),
            ("master:Master.confirmed", "if crc != own_crc:", "if False:"),
            ("master:Master.confirmed", "if end < session.confirmed:", "if False:"),
        ),
        (replace(THREE, values=4, epochs=5),),
    ),
    RuleBreakage(
        "a request without an answer is treated as one that failed",
        (
            (
                "master:Master.learned",
                "membership.version <= self.membership.version",
                "membership.version < self.membership.version",
            ),
        ),
        (replace(SMALL, in_sync_min=1), replace(THREE, in_sync_min=1)),
    ),
    RuleBreakage(
        "a request is made for a later version of the membership than it was meant for",
        (("membership:check_place", "if (epoch, version) != membership.place:", "if epoch != membership.epoch:"),),
        (replace(THREE, in_sync_min=1),),
    ),
    RuleBreakage(
        "sends are answered with too few copies",
        (
            (
                "master:Master.accepts_sends",
                "len(self.membership.in_sync) >= self.membership.in_sync_min_in_force",
                "True",
            ),
        ),
    ),
    RuleBreakage(
        "the membership is changed after the database was restored from a backup",
        (("membership:Membership.check_not_restored", "if self.place < newest_place:", "if False:"),),
        (replace(SMALL, restores=1, in_sync_min=1), replace(THREE, restores=1, in_sync_min=1)),
    ),
    RuleBreakage(
        "a restored membership is replaced by that of an older master",
        (("promotion:recovered", "if reported.epoch < newest_place[0]:", "if False:"),),
        (replace(SMALL, restores=1, in_sync_min=1), replace(THREE, restores=1, in_sync_min=1)),
    ),
    RuleBreakage(
        "a slave applies what is above the high watermark",
        (("tests.sim.replication.group:applicable_end", "min(slave.high_watermark, slave.end)", "slave.end"),),
        (replace(SMALL, applies=True, syncs_later=True), replace(THREE, applies=True)),
    ),
    RuleBreakage(
        "a master still counts as the only member after another one was added",
        (("roles:ReplicaState.for_membership", "len(membership.members) == 1", "membership.epoch == 1"),),
        (replace(SMALL, grows=True), replace(THREE, grows=True)),
    ),
    RuleBreakage(
        "an operator's promotion leaves the others in sync",
        (
            (
                "membership:UncleanPromotion.applied_to",
                "frozenset({self.candidate})",
                "frozenset({self.candidate, *membership.in_sync})",
            ),
        ),
        (replace(OPERATOR, restores=1), replace(OPERATOR, restores=1, members=3)),
    ),
    RuleBreakage(
        "an operator's promotion uses an epoch again that the database had before it was restored",
        (
            (
                "membership:UncleanPromotion.applied_to",
                "max(membership.epoch, self.newest_place[0])",
                "membership.epoch",
            ),
        ),
        (replace(OPERATOR, restores=1),),
    ),
    RuleBreakage(
        "a removed member counts",
        (
            (
                "membership:Membership.without",
                "for member in self.in_sync if member in members",
                "for member in self.in_sync",
            ),
        ),
        (REMOVALS, replace(REMOVALS, members=3)),
    ),
    RuleBreakage(
        "a group that is reduced to one member continues in its epoch",
        (
            (
                "members:RemoveMember.applied_to",
                'return replace(changed, epoch=membership.epoch + 1, promotion_id=self.promotion_id, master_boot_id="")',
                "return changed",
            ),
        ),
        (REMOVALS,),
    ),
    RuleBreakage(
        "the master is removed",
        (("members:RemoveMember.applied_to", "if node_id == membership.master:", "if False:"),),
        (REMOVALS, replace(REMOVALS, members=3)),
    ),
    RuleBreakage(
        "the only member serves with another data folder than the one that was in sync",
        (
            (
                "roles:step_for",
                'and membership.incarnation_of(node.node_id) in ("", node.incarnation)',
                "",
            ),
        ),
        (replace(REMOVALS, new_disks=1),),
    ),
)
