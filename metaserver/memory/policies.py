"""Policies of the broker groups' nodes. Pure: the caller provides the content.

Until policies are set, they are unknown, which differs from empty: a metaserver that has just started, or whose database is
unavailable, must not lift what nodes enforce.
"""

from collections.abc import Collection, Mapping

from metaserver.choices import GroupKind, OperatorState, Phase
from metaserver.domain import Metadata, Route, SubjectRule
from qmq.conversion import convert
from qmq.protocol.reasons import NO_REASON, Code, Reason
from qmq_node.policy import EMPTY_POLICY, NodePolicy, SubjectPolicy, encode_policy

NO_RULE = SubjectRule()
READ_ONLY = {
    OperatorState.READ_ONLY: Reason.of(Code.SET_READ_ONLY),
    OperatorState.DRAINING: Reason.of(Code.GROUP_DRAINS),
}
"""Why the nodes of a group refuse sends."""


def policies_of(
    metadata: Metadata, routes: Mapping[str, Route], moving: Collection[str] | None = None
) -> dict[str, NodePolicy]:
    """The policy of each broker group: archiving, drains and quotas of subjects, pauses, read only.

    `moving`: the subjects whose route has phases; None: all routes are searched. Raises ProtocolError above a policy's maximum.
    """
    subjects: dict[str, dict[str, SubjectPolicy]] = {group.name: {} for group in metadata.broker_groups}
    delay_groups = [group.name for group in metadata.broker_groups if group.kind is GroupKind.DELAY]
    if moving is None:
        moving = [route.subject for route in routes.values() if route.phases]
    unruled = {subject: NO_RULE for subject in moving if subject not in metadata.rules}
    for subject, rule in (*metadata.rules.items(), *unruled.items()):
        route = routes.get(subject)
        served, phases = (route.broker_groups, route.phases) if route is not None else ((), {})
        for name in (*served, *delay_groups):
            policy = _policy(rule, closed=rule.is_archived or phases.get(name) is Phase.DRAINING)
            if policy is not None and name in subjects:
                subjects[name][subject] = policy
    return {
        group.name: NodePolicy.of(
            subjects=subjects[group.name],
            paused=metadata.paused if group.kind is GroupKind.BROKER else frozenset(),
            read_only=READ_ONLY.get(group.operator_state, NO_REASON),
        )
        for group in metadata.broker_groups
    }


def _policy(rule: SubjectRule, *, closed: bool) -> SubjectPolicy | None:
    policy = convert(SubjectPolicy, rule, closed=closed)
    return None if policy == SubjectPolicy() else policy


class Policies:
    """Policies by broker group; groups without one have the empty policy."""

    def __init__(self) -> None:
        self._policies: dict[str, NodePolicy] | None = None
        self._documents: dict[str, bytes] = {}
        """By version: those of the policies in force."""

    def encoded(self, policies: Mapping[str, NodePolicy]) -> tuple[Mapping[str, NodePolicy], dict[str, bytes]]:
        """Arguments for `set`; may run in a thread, as documents can be large. Raises ProtocolError for one that is too large."""
        known = self._documents
        wanted = [EMPTY_POLICY, *policies.values()]
        return policies, {policy.version: known.get(policy.version) or encode_policy(policy) for policy in wanted}

    def set(self, policies: Mapping[str, NodePolicy], documents: dict[str, bytes]) -> None:
        """Replace them all by what `encoded` returned."""
        self._policies, self._documents = dict(policies), documents

    def of(self, broker_group: str) -> NodePolicy | None:
        """The group's policy; None when policies are not known yet."""
        return None if self._policies is None else self._policies.get(broker_group, EMPTY_POLICY)

    def version(self, broker_group: str) -> str:
        """The version that the group's nodes must apply; "" when none is known."""
        policy = self.of(broker_group)
        return "" if policy is None else policy.version

    def document(self, broker_group: str, known_version: str) -> tuple[str, bytes]:
        """(version, document); the document is empty when the node knows that version, or none is known here."""
        policy = self.of(broker_group)
        if policy is None:
            return "", b""
        return policy.version, b"" if policy.version == known_version else self._documents[policy.version]
