"""The rules of replication: what a member of a broker group may do, and when the group's membership may change. Pure.

States and events in, states out: no clock, no socket, no file. Nodes and metaservers apply these rules, and
tests/sim/replication walks all states that they allow with few members, messages and failures. docs/failover.md argues why no
acknowledged message is lost.

- `membership`: the membership of a broker group and its changes.
- `roles`: what a node does about a membership that it learns.
- `master`: what a master counts, and when it may change the in-sync set.
- `slave`: what a slave accepts, confirms and applies.
- `following`: whether a slave may follow, and up to where it keeps its log.
- `promotion`: when a metaserver promotes a member, and which one.
"""
