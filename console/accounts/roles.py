"""The table of rights. Pure: plain values in, a decision out; used by the API, the websockets and the CLI.

A right applies either to the whole system or to one subject. Operators have a right on subjects for subjects of their teams and
unowned subjects; administrators have it for all.
"""

from collections.abc import Set
from dataclasses import dataclass
from enum import StrEnum

from metaserver.domain import may_change


class Role(StrEnum):
    """What a user is, in the whole system."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


class Right(StrEnum):
    """What may be done."""

    READ = "read"
    """Numbers, names and settings: lists, details, lag, alerts, jobs, analytics."""
    READ_MESSAGES = "read_messages"
    """What messages say: browse, search, tail, trace, dead letters, delayed messages with their properties."""
    SEND = "send"
    """Produce a message, replay dead letters, resend rows of an outbox."""
    CHANGE_SUBJECTS = "change_subjects"
    """Create, describe, limit, archive subjects; provisioning."""
    CHANGE_GROUPS = "change_groups"
    """Pause, resume, reset consumer groups; delete dead letters; discard rows of an outbox."""
    CHANGE_DELAYED = "change_delayed"
    """Cancel, move, deliver delayed messages."""
    CHANGE_ALERTS = "change_alerts"
    """Rules, silences, acknowledgements."""
    CHANGE_CLUSTER = "change_cluster"
    """Broker groups and nodes, placement, alert channels, background jobs, registered databases."""
    CHANGE_MASKING = "change_masking"
    """Masking rules of subjects. With this right a user can also remove a rule and see what it hides."""
    READ_AUDIT = "read_audit"
    CHANGE_ACCOUNTS = "change_accounts"
    """Users, teams, roles, other people's tokens."""
    OWN_ACCOUNT = "own_account"
    """One's own profile, sessions and tokens."""


_VIEWER = frozenset({Right.READ, Right.OWN_ACCOUNT})
_OPERATOR = _VIEWER | {
    Right.READ_MESSAGES,
    Right.SEND,
    Right.CHANGE_SUBJECTS,
    Right.CHANGE_GROUPS,
    Right.CHANGE_DELAYED,
    Right.CHANGE_ALERTS,
}
RIGHTS_OF: dict[Role, frozenset[Right]] = {
    Role.VIEWER: _VIEWER,
    Role.OPERATOR: _OPERATOR,
    Role.ADMIN: frozenset(Right),
}
OF_A_SUBJECT = frozenset(
    {Right.READ_MESSAGES, Right.SEND, Right.CHANGE_SUBJECTS, Right.CHANGE_GROUPS, Right.CHANGE_DELAYED}
)
"""Rights that depend on who owns the subject."""


class Scope(StrEnum):
    """What a token may be used for, at most; its owner's role bounds it too."""

    READ = "read"
    MESSAGES = "messages"
    OPERATE = "operate"
    ADMIN = "admin"


RIGHTS_OF_SCOPE: dict[Scope, frozenset[Right]] = {
    Scope.READ: frozenset({Right.READ}),
    Scope.MESSAGES: frozenset({Right.READ, Right.READ_MESSAGES, Right.SEND}),
    Scope.OPERATE: _OPERATOR - {Right.OWN_ACCOUNT},
    Scope.ADMIN: frozenset(Right) - {Right.OWN_ACCOUNT, Right.CHANGE_ACCOUNTS},
}
"""No token changes accounts or makes tokens: that takes a person with a session."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller. `scopes` is None for a session, and the token's scopes for a token."""

    name: str
    role: Role
    teams: Set[str] = frozenset()
    scopes: frozenset[Scope] | None = None
    lacks_second_factor: bool = False
    """A second factor is required of this user and not set up. A session then has only OWN_ACCOUNT, a token no right."""

    def has(self, right: Right) -> bool:
        """Whether the right is given at all, whatever the subject."""
        if right not in RIGHTS_OF[self.role] or (self.lacks_second_factor and right is not Right.OWN_ACCOUNT):
            return False
        return self.scopes is None or any(right in RIGHTS_OF_SCOPE[scope] for scope in self.scopes)

    def may(self, right: Right, owner: str | None = None) -> bool:
        """Whether the right applies to a subject of this owner (a team; None: unowned). The owner is ignored for rights of the
        whole system.
        """
        if not self.has(right):
            return False
        return right not in OF_A_SUBJECT or may_change(owner, self.bound_to)

    @property
    def bound_to(self) -> frozenset[str] | None:
        """The teams whose things may be changed; None for an administrator: all teams'."""
        return None if self.role is Role.ADMIN else frozenset(self.teams)
