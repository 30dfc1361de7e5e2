"""What holds at the end of a schedule: all members have what was committed, the same state, and each message once."""

from typing import Any

from broker_node.broker import Broker
from broker_node.recovery.open_store import open_store
from broker_node.storage.store import MessageStore
from broker_node.storage.subject_table import StoreLimits
from qmq.protocol.messages import decode_raw
from qmq_node.log.handles import HandleCache
from qmq_node.log.replay import MemberOpening
from tests.sim.replication.copying import derived
from tests.sim.slaves.late_groups import LateGroups
from tests.sim.slaves.watch import GroupWatch
from tests.sim.swarm.history import Broken, History
from tests.sim.world.cluster import Cluster, Host, MemberNode
from tests.support.disks.disk_work import forget_removed, read_and_repair

DERIVED = ("consume", "progress", "checkpoint/tails")
"""Folders and files of a member that are made from its log and what its checkpoint knows of removed segments."""

State = tuple[dict[str, Any], dict[tuple[str, ...], bytes]]
"""What `derived` returns."""


class FinalChecks:
    """Looks at the members of one group when all have the same log. What is broken goes to the history."""

    def __init__(self, cluster: Cluster, history: History, watch: GroupWatch) -> None:
        self._cluster, self._history, self._watch = cluster, history, watch
        self._has_histories = True
        """Whether all members have all histories of consumer groups."""

    def _brokers(self) -> tuple[dict[str, Broker], Broker]:
        """All members, and of these the master."""
        hosts, membership = self._watch.hosts, self._watch.membership
        brokers = {node: host.server for node, host in hosts.items() if isinstance(host.server, MemberNode)}
        assert membership is not None
        return brokers, brokers[membership.master]

    def check(self) -> None:
        """Check that all members have what was committed, and the same state, which also follows from the log alone."""
        history, watch = self._history, self._watch
        brokers, master = self._brokers()
        if len(watch.committed) < master.log.gather.records_end:
            text = f"{len(watch.committed)} bytes of {master.log.gather.records_end} are committed"
            history.broken.append(Broken("bytes", text))
        for node, host in watch.hosts.items():
            if not watch.has_committed(host, 0, len(watch.committed)):
                history.broken.append(Broken("bytes", f"the log of {node} is not what was committed"))
        begin = max(broker.log.begin for broker in brokers.values())
        empty = {name for broker in brokers.values() for name in _empty(broker.store)}
        # What a member left out when it copied the log is missing in its histories, also once it is repaired.
        self._has_histories = not any(broker.log.stored.lost.ranges for broker in brokers.values())
        states = {node: _state(broker.store, begin, empty) for node, broker in brokers.items()}
        first, expected = next(iter(states.items()))
        for node, state in states.items():
            if not self._equal(state, expected):
                history.broken.append(Broken("derived", f"{node} has another state than {first}"))
        # All logs are equal.
        node = self._cluster.loop.rng("replay").choice(list(states))
        self._check_replay(watch.hosts[node], brokers[node], begin, empty, states[node])

    def _equal(self, one: State, other: State) -> bool:
        """Whether two states are equal. While retention has removed nothing, all begin at the same entry."""
        (state, lists), (other_state, other_lists) = one, other
        if not self._has_histories:
            lists, other_lists = _of_messages(lists), _of_messages(other_lists)
        if not self._watch.removed_to:
            return (state, lists) == (other_state, other_lists)
        return (
            state == other_state
            and lists.keys() == other_lists.keys()
            and all(
                entries.endswith(other_lists[key]) or other_lists[key].endswith(entries)
                for key, entries in lists.items()
            )
        )

    def _check_replay(self, host: Host, broker: Broker, begin: int, empty: set[str], expected: State) -> None:
        """A store that is made from the log alone is the same. What retention has removed of the log, a checkpoint knows."""
        disk, root = host.disk.after_kill(), broker.options.data_dir
        lost = tuple(f"{root}/{name}" for name in DERIVED)
        for path in list(disk.names):
            if path.startswith(lost) if self._watch.removed_to else not path.startswith(f"{root}/log/"):
                disk.remove(path)
        store, _ = open_store(
            disk, root, host.clock, limits=StoreLimits(), segment_bytes=broker.options.segment_bytes,
            handles=HandleCache(disk, clock=host.clock), member=MemberOpening(broker.log.high_watermark),
        )  # fmt: skip
        if not self._equal(_state(store, begin, empty), expected):
            self._history.broken.append(
                Broken("derived", f"a start of {host.name} with its log alone gives another state")
            )

    def check_messages(self, late_groups: LateGroups) -> None:
        """Check what the master has against what clients of the bare protocol sent: each message is sent once."""
        _, master = self._brokers()
        watch, missing = self._watch, self._watch.lost_ids | self._watch.removed_ids
        found: dict[str, int] = {}
        sequences: dict[str, int] = {}
        for subject in master.store.subjects.values():
            if subject.name.startswith("%"):
                continue
            forget_removed(master.store, subject)
            raws = read_and_repair(master.store, subject, subject.begin, subject.visible_end)
            for sequence, raw in enumerate(raws, subject.begin):
                if raw is None:
                    self._history.broken.append(Broken("content", f"a message of {subject.name} can't be read"))
                    continue
                message = decode_raw(raw)[0]
                found[message.message_id] = found.get(message.message_id, 0) + 1
                sequences[message.message_id] = sequence
                sent = self._history.sent.get(message.message_id)
                if sent is None or sent.subject != subject.name:
                    self._history.broken.append(Broken("phantom", f"never sent: {message.message_id}"))
                elif sent.is_refused:
                    self._history.broken.append(Broken("phantom", f"was refused, and is stored: {sent.message_id}"))
                elif message.properties["data"] != sent.properties["data"]:
                    self._history.broken.append(Broken("content", f"not as it was sent: {sent.message_id}"))
        for sent in self._history.sent.values():
            count = found.get(sent.message_id, 0)
            if sent.is_acked and not count and sent.message_id not in missing:
                self._history.broken.append(Broken("lost", f"acknowledged and not stored: {sent.message_id}"))
            if count > 1:
                self._history.broken.append(Broken("stored_twice", f"{count} times: {sent.message_id}"))
        late_groups.check(master, sequences)
        # Acks may be lost, too.
        for one in () if watch.has_lost else self._history.again:
            self._history.broken.append(Broken("duplicate", f"acked by the group, and came again: {one.message_id}"))


def _of_messages(lists: dict[tuple[str, ...], bytes]) -> dict[tuple[str, ...], bytes]:
    """Return the entries of messages, without the histories of consumer groups."""
    return {key: entries for key, entries in lists.items() if len(key) == 1}


def _empty(store: MessageStore) -> set[str]:
    """The subjects without groups and messages. A store notices only when it is asked what retention has removed.

    They do not follow from a log: a master makes the retry subject when a consumer leaves, also if retention has removed all that
    was to be retried, and a subject becomes empty when its last segment is removed, on one member after the other.
    """
    for subject in store.subjects.values():
        forget_removed(store, subject)
        assert subject.withheld_count >= 0
    return {name for name, subject in store.subjects.items() if subject.is_empty}


def _state(store: MessageStore, log_begin: int, empty: set[str]) -> State:
    """What follows from a log from an offset on, without empty subjects.

    Where the numbers of a subject began that was removed before is not known from the log alone.
    """
    empty = empty | _empty(store)
    state, lists = derived(store, log_begin)
    if log_begin:
        state["subjects"] = {name: found for name, found in state["subjects"].items() if name not in empty}
        lists = {key: entries for key, entries in lists.items() if key[0] not in empty}
        for found in state["subjects"].values():
            found["line"].pop("origin", None)
    return state, lists
