"""Deliberate breakages of delay groups, as those of `breakages.py`."""

from dataclasses import dataclass, replace

from tests.sim.slaves.breakages import SlavesBreakage
from tests.sim.slaves.delays import DelayMix, run_delays

CALM = DelayMix(
    brokers=0,
    subjects=2,
    faults=(),
    fault_seconds=0.7,
    groups=(),
    delayed=1.0,
    batches=0.0,
    poison=0.0,
    gives_back=0.0,
    has_operator=False,
    storm_seconds=6.0,
    pause=0.1,
    senders=2,
)
KILLS = replace(CALM, faults=("kill_member",))
CUTS = replace(CALM, faults=("cut_master_off", "cut_master_and_slave", "kill_member"))
SLOW_SYNCS = replace(CALM, faults=("slow_syncs", "kill_member", "cut_slave_to_master"), copies=3)
LOST_TAILS = replace(CALM, faults=("cut_master_off",), fault_seconds=2.0, storm_seconds=14.0, senders=4)
"""A master without slaves, which takes requests that no later one knows."""


@dataclass(frozen=True)
class DelayBreakage(SlavesBreakage):
    """Changes of the product, found in a delay group."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "run", run_delays)


DELAY_BREAKAGES = (
    DelayBreakage(
        "a claim is not waited for",
        "too_late",
        (
            (
                "delay_node.batches:BatchSender._claim",
                "await self._committer.synced(self._store.act(RecordKind.CLAIMED, fresh, self._clock.now_ms()))",
                "self._store.act(RecordKind.CLAIMED, fresh, self._clock.now_ms())\n    self._committer.kick()",
            ),
        ),
        SLOW_SYNCS,
        seed=35,
    ),
    DelayBreakage(
        "a change is answered before it is below the high watermark",
        "cancelled",
        (
            (
                "delay_node.changes:Changes.change",
                "await self.committer.synced(self.store.log.gather.records_end - 1)",
                "self.committer.kick()",
            ),
        ),
        LOST_TAILS,
        seed=11,
    ),
    DelayBreakage(
        "lookups show decisions that are not below the high watermark",
        "cancelled",
        (
            (
                "delay_node.queries:Queries._shown",
                "await self._synced(self._store.log.gather.records_end - 1)",
                "pass",
            ),
        ),
        LOST_TAILS,
        seed=11,
    ),
    DelayBreakage(
        "a checkpoint stands within a commit",
        "derived",
        (
            (
                "delay_node.commit_hold:CommitHold.between",
                "while self.is_within:",
                "while False:",
            ),
        ),
        replace(
            KILLS,
            checkpoint_seconds=0.05,
            senders=6,
            pause=0.03,
            slowness=100.0,
            applies_slowly=True,
            fault_seconds=0.5,
        ),
        seed=4,
    ),
    DelayBreakage(
        "a record does not say which messages were held",
        "derived",
        (
            (
                "delay_node.store:DelayStore.act",
                "encode_action(at_ms, part, marked)",
                "encode_action(at_ms, part, set())",
            ),
            ("delay_node.store:DelayStore.move", "number, was_held=was_held)", "number, was_held=False)"),
        ),
        KILLS,
        seed=2,
    ),
    DelayBreakage(
        "one of several members restores hours from their files",
        "failure",
        (
            (
                "delay_node.recovery:open_store",
                "if member is None:\n            _salvage",
                "if True:\n            _salvage",
            ),
        ),
        replace(CALM, faults=("lost_checkpoints",), has_copies=True, checkpoint_seconds=1.0, segment_bytes=8 << 10),
        seed=22,
    ),
    DelayBreakage(
        "a master ends hours without a record",
        "derived",
        (
            (
                "delay_node.serving:DelayServing._close_hours",
                "self._data.store.end_hours(ended[:ENDED_HOURS_MAX], now_ms)",
                "[(self._data.store._forget(hour), self._data.store.hours.ended.append(hour)) for hour in ended]",
            ),
        ),
        replace(CALM, hour_ends=4.0),
        seed=5,
    ),
    DelayBreakage(
        "a subject gets its number before the log has a record of it",
        "derived",
        (
            (
                "delay_node.store:DelayStore.schedule",
                "self.subjects.next_number(run.subject)",
                "self.subjects.number(run.subject)",
            ),
        ),
        replace(CALM, subjects=100, hour_messages_max=30),
    ),
    DelayBreakage(
        "a slave does not follow the time of its group",
        "early",
        (("delay_node.group_clock:GroupClock.stated", "self.trusted.follow(", "("),),
        replace(
            CALM,
            faults=("clock_step", "clock_step", "switch_over", "kill_member"),
            fault_seconds=0.5,
            storm_seconds=12.0,
        ),
        seed=16,
    ),
    DelayBreakage(
        "a slave copies what its master has lost",
        "derived",
        (("delay_node.checkpoint:state_of_copy", "row._replace(lost=0).encode()", "row.encode()"),),
        replace(
            CALM,
            faults=("lost_entry",),
            copies=3,
            has_copies=True,
            checkpoint_seconds=1.0,
            segment_bytes=8 << 10,
            storm_seconds=9.0,
        ),
        seed=2,
    ),
    DelayBreakage(
        "a start uses a file of an hour beyond what its checkpoint counts",
        "derived",
        (
            (
                "delay_node.checkpoint:restore_state",
                "store.hours.make(*row)",
                "from delay_node.schedule_log import DISPATCH_BYTES, hour_name\n"
                "        name = hour_name(row.hour)\n"
                "        if name in store.disk.list_dir(f'{store.root}/dispatch'):\n"
                "            size = store.disk.open(f'{store.root}/dispatch/{name}', writable=False).size()\n"
                "            row = row._replace(dispatch_count=max(row.dispatch_count, size // DISPATCH_BYTES))\n"
                "        store.hours.make(*row)",
            ),
        ),
        replace(
            CALM, faults=("crash_at_step", "kill_member"), slowness=100.0, checkpoint_seconds=0.1, fault_seconds=0.4
        ),
        seed=43,
    ),
)
