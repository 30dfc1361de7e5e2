"""Deliberate breakages of replication in whole nodes. The schedule of some seed must find what each of them breaks."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from tests.sim.slaves.schedule import SlavesMix, run_schedule
from tests.sim.swarm.runs import Mix, Report
from tests.support.source_change import SourceChange

SEEDS_MAX = 2_000

CALM = SlavesMix(
    brokers=1,
    subjects=1,
    faults=(),
    fault_seconds=1.0,
    groups=(),
    delayed=0.0,
    batches=0.0,
    poison=0.0,
    gives_back=0.0,
    has_operator=False,
    storm_seconds=12.0,
    copies=2,
    in_sync_min=1,
)
KILLS = replace(CALM, faults=("kill_member",))
CRASHES = replace(CALM, faults=("crash_at_step",), slowness=50.0, fault_seconds=0.5)
CUTS = replace(CALM, faults=("cut_off", "kill_member", "pause_member"))
TRUNCATIONS = replace(
    CALM,
    faults=("crash_at_truncation", "cut_master_off"),
    fault_seconds=2.0,
    storm_seconds=30.0,
    producers=6,
    slowness=60.0,
)
THREE = replace(CUTS, copies=3)
OLDER_FOLDERS = replace(
    CALM, faults=("older_folder", "switch_over", "kill_member"), fault_seconds=0.3, storm_seconds=20.0
)
LOSSES = replace(
    CALM, copies=3, subjects=2, faults=("accepted_loss", "cut_master_and_meta"), fault_seconds=1.5, producers=3
)
LATE_GROUPS = replace(CALM, faults=("accepted_loss",), fault_seconds=2.0, storm_seconds=25.0, producers=6)
SHARED_SYNCS = replace(CRASHES, producers=3, shares_syncs=True)
NEW_DISKS = replace(CALM, faults=("new_disk", "switch_over", "kill_member"), fault_seconds=0.3)


@dataclass(frozen=True)
class SlavesBreakage:
    """Changes of the product that together break one promise."""

    name: str
    caught_by: str
    """The name of a check that finds it."""
    changes: tuple[tuple[str, str, str], ...]
    """`module:function`, the text to replace, and its replacement."""
    mix: Mix = KILLS
    run: Callable[[int, Any], Report] = run_schedule
    """Does the schedule of a seed with a mix."""
    seed: int = 1
    """One that found it, tried first. The others follow, in case the product has changed since."""

    def applied(self) -> ExitStack:
        """The product with these changes."""
        stack = ExitStack()
        for where, old, new in self.changes:
            stack.enter_context(SourceChange(self.name, where, old, new).applied())
        return stack

    def find(self, seeds: int = SEEDS_MAX) -> Report:
        """The first schedule in which the check finds it, or the last one."""
        with self.applied():
            for seed in dict.fromkeys((self.seed, *range(1, seeds + 1))):
                report = self.run(seed, self.mix)
                if self.is_noticed(report):
                    break
        return report

    def is_noticed(self, report: Report) -> bool:
        """Whether the check found it."""
        return self.caught_by in {broken.check for broken in report.broken}


BREAKAGES = (
    # --- the rules
    SlavesBreakage(
        "a master leads with an older copy of its data folder",
        "in_sync",
        (
            (
                "qmq_node.replication.rules.roles:Identity.may_lead",
                "(self.boot_id, self.incarnation) == (membership.master_boot_id, membership.incarnation_of(self.node_id))",
                "self.incarnation == membership.incarnation_of(self.node_id)",
            ),
        ),
        OLDER_FOLDERS,
        seed=415,
    ),
    SlavesBreakage(
        "a process leads that was not promoted",
        "chains",
        (("qmq_node.replication.rules.roles:step_for", "if not node.may_lead(membership):", "if False:"),),
        NEW_DISKS,
        seed=17,
    ),
    SlavesBreakage(
        "a slave that is gone counts no longer before the membership says so",
        "in_sync",
        (
            (
                "qmq_node.replication.rules.master:Master.counted",
                "return frozenset(self.membership.in_sync) | {slave for slave, _ in self.requested} | {self.node_id}",
                "return frozenset(session.slave for session in self.sessions) | {self.node_id}",
            ),
        ),
        seed=2,
    ),
    SlavesBreakage(
        "a member that is not in sync is promoted",
        "membership",
        (
            (
                "qmq_node.replication.rules.promotion:choose",
                "for member in membership.in_sync:",
                "for member in membership.members:",
            ),
            (
                "qmq_node.replication.rules.membership:Promotion.applied_to",
                "if self.candidate not in membership.in_sync:",
                "if False:",
            ),
            (
                "qmq_node.replication.rules.membership:Membership.with_in_sync",
                "if member in in_sync",
                "if member in in_sync or member != self.master",
            ),
        ),
        seed=6,
    ),
    SlavesBreakage(
        "a restarted master resumes in its epoch",
        "writer",
        (
            ("qmq_node.replication.rules.roles:step_for", "if not node.may_lead(membership):", "if False:"),
            (
                "qmq_node.replication.rules.roles:step_for",
                "Step.LEAD if membership.epoch > state.epoch else Step.WAIT",
                "Step.LEAD",
            ),
        ),
    ),
    SlavesBreakage(
        "a master still counts as the only member after another one was added",
        "writer",
        (
            (
                "qmq_node.replication.rules.roles:ReplicaState.for_membership",
                "len(membership.members) == 1",
                "membership.epoch == 1",
            ),
        ),
    ),
    SlavesBreakage(
        "a slave counts only when the master has learned that it is in sync",
        "in_sync",
        (
            (
                "qmq_node.replication.rules.master:Master.counted",
                "frozenset(self.membership.in_sync) | {slave for slave, _ in self.requested} | {self.node_id}",
                "frozenset(self.membership.in_sync) | {self.node_id}",
            ),
        ),
        replace(CUTS, faults=("kill_member", "lost_replies", "cut_off"), fault_seconds=0.5),
        seed=171,
    ),
    SlavesBreakage(
        "the membership is changed after the database was restored from a backup",
        "in_sync",
        (
            (
                "qmq_node.replication.rules.membership:Membership.check_not_restored",
                "if self.place < newest_place:",
                "if False:",
            ),
            (
                "metaserver.memory.group_table:GroupTable._learn",
                "if membership.place >= own.membership.place:",
                "if True:",
            ),
        ),
        replace(KILLS, faults=("kill_member", "restored_database"), fault_seconds=0.7, storm_seconds=20.0),
        seed=5,
    ),
    SlavesBreakage(
        "confirmations and truncations go by length",
        "bytes",
        (
            ("qmq_node.replication.rules.master:Master.confirmed", "if crc != own_crc:", "if False:"),
            (
                "qmq_node.replication.rules.following:answer_follow",
                "common = theirs.chain.common_end(theirs.end, own.chain, own.end)",
                "common = min(theirs.end, own.end)",
            ),
            (
                "qmq_node.replication.slave.joining:Joining.check",
                "if await self.crc_at(keep_to) != answer.keep_to_crc:",
                "if False:",
            ),
            (
                "qmq_node.replication.master.following_slaves:FollowRules.place",
                "if crc is None and end <= self._log.begin:",
                "if end == request.end:\n        crc = request.crc\n    if False:",
            ),
            ("qmq_node.replication.rules.master:Master.confirmed", "if own_crc is None:", "if False:"),
            (
                "qmq_node.log.copied_log:checked_commits",
                "if chain is not None and header.previous_crc != chain:",
                "if False:",
            ),
        ),
        CUTS,
        seed=48,
    ),
    # --- nodes
    SlavesBreakage(
        "a slave confirms what it has not synced",
        "in_sync",
        (("qmq_node.log.writer:CommitWriter.write_copied", "file.datasync()", "pass"),),
    ),
    SlavesBreakage(
        "a slave applies what is above the high watermark",
        "applied",
        (
            (
                "qmq_node.commits.applying:Applying.advance",
                "min(self.known_high_watermark, self._log.synced_end)",
                "self._log.synced_end",
            ),
        ),
        replace(CALM, copies=3, faults=("slow_syncs", "kill_member")),
    ),
    SlavesBreakage(
        "a checkpoint stands above the high watermark",
        "applied",
        (
            (
                "broker_node.recovery.checkpoint:BrokerCheckpoints.draft",
                "    log.watermark.position,",
                "    log.watermark._ends.at_or_below(log.written_end) or log.watermark.position,",
            ),
            (
                "qmq_node.commits.checkpointing:Checkpointing._make",
                "await self.committer.synced(draft.records_end - 1)",
                "pass",
            ),
        ),
        replace(CALM, copies=3, faults=("slow_syncs", "pause_member", "kill_member"), fault_seconds=0.7),
        seed=3,
    ),
    SlavesBreakage(
        "a start does not know that what its checkpoint holds is confirmed",
        "derived",
        (
            (
                "qmq_node.log.replay:Replay.open_log",
                "visit_end = max(member.high_watermark, memory.records_end)",
                "visit_end = member.high_watermark",
            ),
            ("qmq_node.log.replay:Replay.open_log", "synced_to = max(synced_to, memory.records_end)", "pass"),
        ),
        LOSSES,
        seed=68,
    ),
    SlavesBreakage(
        "a group that was known before a loss is created after sends",
        "known_groups",
        (
            (
                "broker_node.known_groups:KnownGroups.refusal",
                "return Reason.of(Code.LACKS_GROUPS, why=self._problem) if self._is_needed else NO_REASON",
                "return NO_REASON",
            ),
            ("broker_node.known_groups:KnownGroups.prepare", "if self._is_needed and self._sessions():", "if False:"),
        ),
        LATE_GROUPS,
        seed=7,
    ),
    SlavesBreakage(
        "an epoch is used before it is on disk",
        "epoch",
        (
            (
                "qmq_node.member.role_shell:MemberShell.store_replica_state",
                "await asyncio.to_thread(self._folder.replica.save_role, state)",
                "replica = self._folder.replica; "
                "self.saving = asyncio.ensure_future(asyncio.to_thread(replica.save_role, state)); replica.state = state",
            ),
        ),
        seed=5,
    ),
    SlavesBreakage(
        "an unknown outcome of a membership change is treated as a failure",
        "in_sync",
        (
            (
                "metaserver.replication.membership_changes:MembershipChanges._resolved",
                "membership = self._read(name)",
                "return MembershipAnswer(MembershipResult.REFUSED, None, str(error))",
            ),
            (
                "qmq_node.replication.master.membership_changes:MembershipChanges._send",
                "if result is not MembershipResult.UNAVAILABLE:",
                "from dataclasses import replace\n"
                "        master = self._in_sync._master\n"
                "        if result is MembershipResult.REFUSED:\n"
                "            master.set(replace(master.value, requested=frozenset()))\n"
                "        if True:",
            ),
        ),
        replace(KILLS, faults=("kill_member", "lost_replies"), fault_seconds=0.4),
        seed=23,
    ),
    SlavesBreakage(
        "a log is truncated without a record of that",
        "damage",
        (
            (
                "qmq_node.log.log:SegmentedLog.truncate",
                "TruncationFile(self._disk, self._segments.folder).save(to)",
                "from unittest.mock import patch",
            ),
            (
                "qmq_node.log.log:SegmentedLog.truncate",
                "    finish_truncation(self._disk, self._segments.folder)",
                "    with patch.object(TruncationFile, 'load', lambda _: to):\n"
                "        finish_truncation(self._disk, self._segments.folder)",
            ),
        ),
        TRUNCATIONS,
        seed=42,
    ),
    SlavesBreakage(
        "several commits are trusted after one sync",
        "damage",
        (
            (
                "qmq_node.log.writer:CommitWriter.write_copied",
                "if header.record_count:",
                "if header is headers[-1]:",
            ),
            (
                "qmq_node.log.writer:CommitWriter.write_copied",
                "if header.synced_to > self.synced_end:",
                "if False:",
            ),
        ),
        replace(CRASHES, producers=3),
        seed=43,
    ),
    SlavesBreakage(
        "an unproven shared sync",
        "damage",
        (
            (
                "qmq_node.log.writer:CommitWriter.share_syncs",
                "lambda: self._proof.save(Position(self.end, self.chain))",
                "lambda: None",
            ),
            ("qmq_node.log.writer:CommitWriter.sync", "if self.shares_syncs:", "if False:"),
        ),
        SHARED_SYNCS,
        seed=84,
    ),
    SlavesBreakage(
        "commits above the proof are trusted",
        "damage",
        (("qmq_node.log.recovery:Walker._is_copied", "self.copied_from is not None", "False"),),
        SHARED_SYNCS,
        seed=7,
    ),
    SlavesBreakage(
        "a master sends other index entries than its own",
        "derived",
        (
            (
                "broker_node.storage.store:MessageStore.append_run",
                "log.gather.add_index_entries(index_entries)",
                "log.gather.add_index_entries(encode_run(part, entries, stored_at_ms + 1))",
            ),
        ),
        CALM,
    ),
)
