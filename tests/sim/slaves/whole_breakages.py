"""Deliberate breakages that only schedules with real clients, delayed messages and a failover find, as those of `breakages.py`."""

from dataclasses import dataclass, replace

from tests.sim.slaves.breakages import SlavesBreakage
from tests.sim.slaves.whole import WholeMix, run_whole

SWITCHES = WholeMix(
    brokers=2,
    subjects=1,
    faults=("switch_over",),
    fault_seconds=1.0,
    groups=("real",),
    delayed=0.0,
    batches=0.0,
    poison=0.0,
    gives_back=0.0,
    has_operator=False,
    storm_seconds=15.0,
)
KILLS = replace(SWITCHES, faults=("kill_member",), in_sync_min=1)
CLIENTS = replace(KILLS, faults=("kill_member", "kill_client"), fault_seconds=0.4)


@dataclass(frozen=True)
class WholeBreakage(SlavesBreakage):
    """Changes of the product, found in a whole system."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "run", run_whole)


WHOLE_BREAKAGES = (
    WholeBreakage(
        "a delayed message counts as delivered when its master is replaced before it answers",
        "lost",
        (
            (
                "delay_node.batches:BatchSender._send",
                "        self.counters.unknown += len(items)\n"
                "        self._failed(items, route, str(error))\n"
                "        return\n",
                "        failures = {}\n",
            ),
        ),
        replace(KILLS, delayed=0.9, batches=0.5, slowness=60.0),
    ),
    WholeBreakage(
        "slaves forget acks of broadcasts",
        "derived",
        (
            (
                "broker_node.recovery.replay:BrokerReplay._action",
                "store.apply(subject, group, action, offset, self._seen_at)",
                "if not (action.broadcast and type(action).__name__ == 'Ack'):\n"
                "        store.apply(subject, group, action, offset, self._seen_at)",
            ),
        ),
        replace(SWITCHES, groups=("broadcast",)),
    ),
    WholeBreakage(
        "a retry counts as stored when its master is replaced before it answers",
        "progress",
        (
            (
                "qmq.client.sender:Sender._send_to",
                "batch.may_be_stored = True",
                "batch.may_be_stored = True\n"
                "            if batch.subject.startswith('%'):\n"
                "                self._settle(batch, batch.receipts(route.name))\n"
                "                return self._attempt_ended()",
            ),
        ),
        replace(KILLS, gives_back=0.5, poison=0.2, slowness=60.0),
        seed=6,
    ),
    WholeBreakage(
        "what a former master assigned does not match the tags of its consumer",
        "undelivered",
        (
            (
                "broker_node.delivery.delivery:Delivery._redeliver",
                "match.matches(raw))",
                "(match.matches(raw) and any(run.holder for run in runs)))",
            ),
        ),
        replace(CLIENTS, groups=("tags",), batches=0.5),
    ),
    WholeBreakage(
        "at most once delivers before a master has confirmed the ack",
        "once",
        (("qmq.client.fetcher:Fetcher._pull", "await self._acker.ack_batch(pulled, last, began)", "pass"),),
        replace(CLIENTS, groups=("once",), faults=("kill_member", *["kill_client"] * 4), batches=0.9),
    ),
)
