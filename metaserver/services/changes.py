"""What all changes have in common: actor, transaction, dry run, and reasons for rejection."""

import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict, TypeVar

from django.db import IntegrityError, connection, transaction
from django.db.models import Model, QuerySet

from metaserver.domain import may_change
from metaserver.errors import Conflict, NotAllowed, Stale
from qmq.protocol.reasons import Reason

M = TypeVar("M", bound=Model)


@dataclass(frozen=True, slots=True)
class Actor:
    """Who changes something, for the audit log and for the check of ownership under the lock of what is changed."""

    name: str
    """A user's, a token's or a process's."""
    address: str = ""
    """Where the request came from."""
    request_id: str = ""
    client_request_id: str = ""
    """The caller's own `X-Request-Id`, or ""."""
    teams: frozenset[str] | None = None
    """Teams whose things may be changed, besides those without an owner; None: all teams' (`metaserver.domain.may_change`)."""
    is_applying: bool = False
    """Whether the changes are those of a document, which has an entry of its own in the audit log."""
    may_unmask: bool = True
    """Whether masking rules may be changed, which can show what they hide."""

    def require_owner(self, target: str, owner: str | None) -> None:
        """Raises NotAllowed when another team owns the target."""
        if not may_change(owner, self.teams):
            raise NotAllowed(
                f"{target} belongs to team {owner}, and {self.name} is not a member. Ask a member or an administrator."
            )


METASERVER = Actor("metaserver")
"""The actor of automatic changes."""


class Request(TypedDict):
    """Arguments of every change."""

    actor: Actor
    reason: NotRequired[str]
    """For the audit log."""
    dry_run: NotRequired[bool]
    """Whether to say only what the change would do."""


class VersionedRequest(Request):
    """As `Request`, of something that exists."""

    expected_version: NotRequired[int | None]
    """The version that the caller read; None: it does not care."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a change did, or in a dry run would do. Equal `before` and `after`: nothing."""

    target: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    version: int = 0
    notes: tuple[Reason, ...] = ()
    """Notes for the caller (`metaserver.services.notes`): what happens next, what the change does not do."""

    @property
    def is_change(self) -> bool:
        return self.before != self.after


@contextmanager
def changing(*, dry_run: bool) -> Iterator[None]:
    """One transaction; a dry run does everything, constraints included, and takes it back."""
    with transaction.atomic():
        yield
        if dry_run:
            transaction.set_rollback(True)


@contextmanager
def only_one(text: str, code: str) -> Iterator[None]:
    """Convert the IntegrityError of a concurrent insert into `Conflict`."""
    try:
        with transaction.atomic():
            yield
    except IntegrityError as error:
        raise Conflict(text, code=code) from error


def lock(rows: "QuerySet[M]") -> M | None:
    """The first of these rows, locked until the transaction ends; None when there is none.

    Locked by its primary key alone: MariaDB locks an entry of each index that it uses, which would be two orders of locking.
    """
    key = rows.values_list("pk", flat=True).first()
    return None if key is None else for_change(rows.model._default_manager.filter(pk=key)).first()


def for_change(rows: "QuerySet[M]") -> "QuerySet[M]":
    """Lock rows in the order of their keys until the transaction ends. Transactions that only refer to them are not blocked."""
    no_key = connection.features.has_select_for_no_key_update
    return rows.select_for_update(no_key=no_key).order_by("pk")


def delete_some(rows: "QuerySet[Any]", most: int) -> int:
    """Delete at most this number of rows, the first ones; how many. With little at a time no lock lasts."""
    keys = list(rows.values_list("pk", flat=True)[:most])
    rows.model._default_manager.filter(pk__in=keys).delete()
    return len(keys)


def text_problem(text: str) -> str:
    """Why a text can't be stored, or "": databases refuse NUL, and half a surrogate pair is no character."""
    if "\x00" in text:
        return "must not contain NUL characters"
    if any("\ud800" <= character <= "\udfff" for character in text):
        return "must not contain unpaired surrogates"
    return ""


def control_problem(text: str) -> str:
    """Why a text of several lines may not be shown as it is, or "": terminals obey control characters, and tables break at them."""
    found = next((character for character in text if character != "\n" and unicodedata.category(character) == "Cc"), "")
    return f"must not contain control characters such as {found!a}, except line feeds" if found else ""


def check_version(target: str, version: int, expected: int | None) -> None:
    """Raises Stale when the caller read another version than the one that is there; None: it does not care."""
    if expected is not None and expected != version:
        raise Stale(
            f"{target} was changed by someone else: its version is {version}, not {expected}. Reload it and try again."
        )
