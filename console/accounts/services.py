"""Users: made, changed, disabled; their teams and sessions. Every change is audited and can be tried as a dry run."""

import contextlib
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Unpack

from allauth.account.models import EmailAddress
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from console.accounts import known, lockout, preferences, sessions
from console.accounts.models import ApiToken, User
from console.accounts.names import username_problem
from console.accounts.roles import Role
from metaserver import queries
from metaserver.errors import ChangeRefused, Conflict, NotFound
from metaserver.services import audit, subjects
from metaserver.services.changes import Actor, Change, Request, VersionedRequest, changing, check_version
from metaserver.services.fields import Choice, Flag, Text, Texts
from metaserver.services.notes import NoteCode
from metaserver.services.resources import Edit, Resource
from metaserver.services.teams import TEAM
from metaserver.services.teams import locked as locked_team
from qmq.protocol.reasons import Reason

FIRST_ADMIN = "admin"
UP = Actor("system")
"""The actor of what is done at the machine itself: first start, `manage.py reset_password`."""
MEMBERS_MAX = 500
PASSWORD_CHARS_MAX = 200
PASSWORD_BYTES = 15
"""Random bytes of a password we make: 20 characters."""
PASSWORDS_MAX = 100
"""Attempts to generate a password that the validators accept. The last one is returned even if they reject it."""


@dataclass(frozen=True, slots=True)
class Made:
    """A change and the secret that it generated, which is shown only once. A dry run generates none."""

    change: Change
    secret: str | None
    id: int | None = None


def described(row: User) -> dict[str, Any]:
    """A user as audit entries show one; nothing secret."""
    return {
        **{key: getattr(row, key) for key in USER.fields},
        "role": str(row.role),
        "teams": sorted(row.teams.values_list("name", flat=True)) if row.pk is not None else [],
    }


def _email_problem(text: str) -> str:
    try:
        validate_email(text)
    except ValidationError:
        return "must be a valid email address" if text else ""
    return ""


_PERSON_NAME = Text(chars_max=150, is_line=True)
USER: Resource[User] = Resource(
    kind="user",
    noun="user",
    fields={
        "email": Text(chars_max=254, is_line=True, check=_email_problem),
        "first_name": _PERSON_NAME,
        "last_name": _PERSON_NAME,
        "language": Text(chars_max=10, is_line=True),
        "preferences": preferences.PREFERENCES,
        "role": Choice(values=[role.value for role in Role]),
        "teams": Texts(item=Text(chars_min=1, chars_max=subjects.TEAM_CHARS_MAX), items_max=50),
        "is_active": Flag(),
    },
    described=described,
    about=lambda row: row.username,
)


def new_password(row: User) -> str:
    """Return a random password for a user. Passwords that the validators reject, one in some thousands, are generated again."""
    for _ in range(PASSWORDS_MAX):
        password = secrets.token_urlsafe(PASSWORD_BYTES)
        with contextlib.suppress(ValidationError):
            validate_password(password, row)
            break
    return password


def ensure_first_admin() -> str | None:
    """Make the user `admin` when there is no user at all; the password, or None when there is one.

    Of two processes that start at once one makes it: the name is unique.
    """
    if User.objects.exists():
        return None
    row = User(username=FIRST_ADMIN, role=Role.ADMIN)
    password = new_password(row)
    row.set_password(password)
    try:
        with transaction.atomic():
            row.save(force_insert=True)
            audit.record(actor=UP, action="user.create", target=FIRST_ADMIN, reason="first start", after=described(row))
    except IntegrityError:
        return None
    return password


def create_user(
    name: str, values: Mapping[str, Any], *, password: str | None = None, **request: Unpack[Request]
) -> Made:
    """Create a user. Without a password a random one is generated, to be shown once.

    Raises:
        ChangeRefused: a value, the name or the password is not allowed.
        Conflict: the name or the email address is already in use.
    """
    if text := username_problem(name):
        raise ChangeRefused(f"username: {name[:80]!r} {text}", code="user.name_illegal", fields={"name": text})
    with USER.creating(User(username=name), name, **request) as edit:
        row = edit.row
        if User.objects.filter(username=name).exists():
            # Before the email address: that of the same person is taken too.
            raise USER.exists(name)
        teams = _set(edit, values)
        made = new_password(row) if password is None else None
        given = made or password or ""
        _check_password(given, row)
        row.set_password(given)
        edit.save(USER.exists(name))
        row.teams.set(teams or ())
    is_dry_run = request.get("dry_run", False)
    return Made(edit.change, None if is_dry_run else made, None if is_dry_run else row.pk)


def update_user(user_id: int, values: Mapping[str, Any], **request: Unpack[VersionedRequest]) -> Change:
    """Change what `values` names. Disabling ends the user's sessions and revokes their tokens at once.

    Raises:
        NotFound, Stale, ChangeRefused.
        Conflict: the last active administrator would be none any more, or the address is taken.
    """
    admins: set[int] = set()

    def locked() -> User:
        row, found = _locked(user_id)
        admins.update(found)
        return row

    with USER.editing(locked, **request) as edit:
        row, before = edit.row, edit.before or {}
        teams = _set(edit, values)
        if admins == {row.pk} and not (row.role == Role.ADMIN and row.is_active):
            raise Conflict(
                f"{row.username} is the last active administrator. Create another administrator first.",
                code="user.last_admin",
            )
        if teams is not None:
            row.teams.set(teams)
        if before["email"] != row.email:
            EmailAddress.objects.filter(user=row).delete()  # what allauth noted of the address before
        if before["is_active"] != row.is_active:
            edit.action = "enable" if row.is_active else "disable"
            if not row.is_active:
                edit.notes = (_shut_out(row),)
        elif before["role"] != row.role:
            edit.action = "role"
    return edit.change


def set_role_by_claim(user_id: int, role: Role, *, actor: Actor) -> None:
    """Give a user the role the identity provider says; the last administrator keeps theirs."""
    if User.objects.filter(pk=user_id, role=role).exists():
        return
    try:
        update_user(user_id, {"role": role.value}, actor=actor, reason="identity provider's claim")
    except Conflict as error:
        if error.code != "user.last_admin":
            raise


def end_sessions(
    user_id: int, *, but: int | None = None, actor: Actor, reason: str = "", dry_run: bool = False
) -> Change:
    """End all sessions of a user, optionally except one."""
    with changing(dry_run=dry_run):
        row, _ = _locked(user_id)
        before = row.sessions.count()
        count = sessions.end_all(row.pk, but=but)
        if count:
            audit.record(
                actor=actor, action="user.end_sessions", target=row.username, reason=reason, after={"ended": count}
            )
        return Change(row.username, {"sessions": before}, {"sessions": before - count}, row.version)


def end_own_session(user: User, session_id: int, *, actor: Actor, dry_run: bool = False) -> Change:
    """End one of a user's own sessions. Raises NotFound."""
    with changing(dry_run=dry_run):
        if user.sessions.filter(pk=session_id).delete()[0] == 0:
            raise NotFound(f"Session {session_id} not found.", code="session.unknown")
        name = user.get_username()
        audit.record(actor=actor, action="user.end_session", target=name, after={"session": str(session_id)})
    return Change(str(session_id), {"is_live": True}, {"is_live": False})


def unlock_user(user_id: int, *, actor: Actor, reason: str = "", dry_run: bool = False) -> Change:
    """Clear the counts of a user's failed sign-ins, when they locked the account. Raises NotFound.

    `is_locked` is null while Redis does not answer; the counts are cleared anyway.
    """
    with changing(dry_run=dry_run):
        row, _ = _locked(user_id)
        change = Change(row.username, {"is_locked": lockout.is_locked(row)}, {"is_locked": False}, row.version)
        if change.is_change:
            row.sign_in_generation += 1
            row.save(update_fields=["sign_in_generation"])
        return audit.record_change(actor, "user.unlock", change, reason)


def reset_password(name: str, *, actor: Actor, reason: str = "", dry_run: bool = False) -> Made:
    """Give a user a random password, end their sessions and clear the counts of failed sign-ins. Raises NotFound."""
    found = User.objects.filter(username=name).values_list("pk", flat=True).first()
    if found is None:
        raise USER.unknown(name)
    with changing(dry_run=dry_run):
        row, _ = _locked(found)
        password = new_password(row)
        before = {"sessions": row.sessions.count()}
        row.set_password(password)
        row.sign_in_generation += 1
        row.version += 1
        row.save()
        sessions.end_all(row.pk)
        known.forget_addresses(row.pk)
        after = {"sessions": 0}
        audit.record(actor=actor, action="user.reset_password", target=name, reason=reason, before=before, after=after)
        change = Change(name, before, after, row.version, (Reason.of(NoteCode.PASSWORD_REPLACED),))
    return Made(change, None if dry_run else password, row.pk)


def set_members(
    team: str,
    names: Iterable[str],
    *,
    actor: Actor,
    reason: str = "",
    expected_version: int | None = None,
    dry_run: bool = False,
) -> Change:
    """Make exactly these users the members of a team.

    Raises:
        NotFound: there is no such team.
        ChangeRefused: there is no such user.
    """
    wanted = set(names)
    if len(wanted) > MEMBERS_MAX:
        TEAM.refuse({"members": f"at most {MEMBERS_MAX} users are allowed"})
    with changing(dry_run=dry_run):
        team_row = locked_team(team)
        check_version(f"team {team}", team_row.version, expected_version)
        touched = User.objects.filter(Q(username__in=wanted) | Q(teams=team_row)).values_list("pk", flat=True)
        users = {
            row.username: row for row in User.objects.select_for_update().filter(pk__in=set(touched)).order_by("pk")
        }
        unknown = sorted(wanted - users.keys())
        if unknown:
            TEAM.refuse({"members": f"user {', '.join(unknown[:5])} not found"})
        members = set(User.objects.filter(teams=team_row).values_list("username", flat=True))
        for name in sorted(wanted ^ members):
            row = users[name]
            (row.teams.add if name in wanted else row.teams.remove)(team_row.pk)
            row.version += 1
            row.save(update_fields=["version", "updated_at"])
        change = Change(team, {"members": sorted(members)}, {"members": sorted(wanted)}, team_row.version)
        return audit.record_change(actor, "team.members", change, reason)


def _shut_out(row: User) -> Reason:
    ended = sessions.end_all(row.pk)
    revoked = ApiToken.objects.filter(owner=row, revoked_at=None).update(revoked_at=timezone.now())
    return Reason.of(NoteCode.SHUT_OUT, sessions=ended, tokens=revoked)


def _locked(user_id: int) -> tuple[User, set[int]]:
    """The user and the ids of all active administrators, locked in one order: of two who would demote each other the
    second one sees what the first did. Raises NotFound."""
    wanted = Q(pk=user_id) | Q(role=Role.ADMIN, is_active=True)
    rows = {row.pk: row for row in User.objects.select_for_update().filter(wanted).order_by("pk")}
    if user_id not in rows:
        raise USER.unknown(user_id)
    return rows[user_id], {pk for pk, row in rows.items() if row.role == Role.ADMIN and row.is_active}


def _check_password(password: str, row: User) -> None:
    if len(password) > PASSWORD_CHARS_MAX:
        USER.refuse({"password": f"must have at most {PASSWORD_CHARS_MAX} characters"})
    try:
        validate_password(password, row)
    except ValidationError as error:
        text = " ".join(error.messages)
        raise ChangeRefused(f"password: {text}", code="user.password_weak", fields={"password": text}) from error


def _set(edit: Edit[User], values: Mapping[str, Any]) -> list[int] | None:
    """Set what is allowed; the ids of the teams when they are named. Raises ChangeRefused, Conflict."""
    row, teams = edit.row, dict[str, int]()

    def set_preferences(value: Mapping[str, Any]) -> None:
        # What is not named stays as it was chosen before.
        row.preferences = {**row.preferences, **value}

    def set_email(value: str) -> None:
        row.email = value.lower()

    def find_teams(names: list[str]) -> str:
        teams.update(queries.teams().filter(name__in=names).values_list("name", "pk"))
        unknown = sorted(set(names) - teams.keys())
        return f"team {', '.join(unknown[:5])} not found" if unknown else ""

    edit.set(values, {"preferences": set_preferences, "email": set_email, "teams": find_teams})
    if row.email and User.objects.filter(email__iexact=row.email).exclude(pk=row.pk).exists():
        raise Conflict(f"Another user already has the email address {row.email}.", code="user.email_taken")
    return sorted(teams.values()) if "teams" in values else None
