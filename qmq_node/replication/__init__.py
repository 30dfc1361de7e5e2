"""Replication as nodes run it: commits go from a master to its slaves, confirmations come back, and the in-sync set follows.

The rules are in `qmq_node.replication.rules`; this package gives them a log, connections, a clock and a way to the membership.
All of it belongs to the event loop, except what says otherwise.

A master:

- `listener`: the sync port, and its two commands.
- `leading`: one epoch of a master: its sessions, and what they confirm.
- `sessions`: the sessions that are open.
- `candidates`: slaves that send FOLLOW; `following_slaves`: whether one is accepted.
- `sender`: one session: which commits are sent when.
- `feed`: the newest commits, in memory.
- `log_reader`: older ones, from the log's segments.
- `master_state`: the state of the rules, and the high watermark that follows from it.
- `in_sync_set`: which slaves are added to the in-sync set and removed from it.
- `state_reads`: the state, for slaves that copy.
- `retention_holds`: what retention leaves for slaves that are behind.
- `membership_changes`: requests to change the in-sync set, one at a time.
- `membership_client`: how these and resignations reach a metaserver.
- `switch_overs`: has a slave promoted while clients wait, at the request of an operator or before the node stops.

A slave:

- `follower`: its connection to the master.
- `joining`: how a session begins.
- `confirmations`: what it confirms.
- `slave_copy`: what it copies when it is far behind; `copy_steps`: from one phase to the next; `state_copy`: reads the state.
- `copy_thread`: writes what arrives.
- `follow_outcomes`: what ends a follower.

Both:

- `role_report`, `role_metrics`: what a node reports of its role.
- `newest_membership`: the membership that a node acts on.
- `role_shell`: what a member does with its node when its role changes.
- `registration`: what it reports to metaservers.
- `flush_check`: settings with which a node can't be one of several members.
"""
