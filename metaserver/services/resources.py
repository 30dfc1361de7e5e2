"""One way to make, change and delete the rows that operators manage.

Each does the same in one transaction: lock the row, compare its version, check the owner (in the resource's `locked`), refuse wrong
values, raise the version, and write the audit entry. A dry run does all of it and takes it back.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Generic, TypeVar, Unpack

from django.db.models import QuerySet

from metaserver.errors import ChangeRefused, Conflict, NotFound
from metaserver.services import audit
from metaserver.services.changes import (
    Change,
    Request,
    VersionedRequest,
    changing,
    check_version,
    lock,
    only_one,
    text_problem,
)
from metaserver.services.fields import SHOWN_CHARS_MAX, Field, Text, joined
from metaserver.versioned import Versioned
from qmq.errors import IllegalName
from qmq.protocol.reasons import Reason

M = TypeVar("M", bound=Versioned)


def check_wire_name(name: str, check: Callable[[str], None], *, field_name: str = "name", code: str) -> None:
    """Raises ChangeRefused for a name that the wire format's check refuses, or that can't be stored."""
    try:
        check(name)
    except IllegalName as error:
        raise ChangeRefused(str(error), code=error.code, fields={field_name: str(error)}) from error
    if text := text_problem(name):
        raise ChangeRefused(f"{field_name}: {name[:SHOWN_CHARS_MAX]!r} {text}", code=code, fields={field_name: text})


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource(Generic[M]):
    """A kind of row that operators manage."""

    kind: str
    """What codes of errors and actions of audit entries begin with."""
    noun: str
    """What sentences call one."""
    fields: Mapping[str, Field]
    """What may be set."""
    described: Callable[[M], dict[str, Any]]
    """What was decided about a row; the form of audit entries and plans."""
    about: Callable[[M], str] = attrgetter("name")
    """Returns the name of a row in audit entries; by default `row.name`."""
    target: Callable[[M], str] | None = None
    """What answers call a row; None: as audit entries do."""
    metadata: Callable[[M], Mapping[str, str]] = lambda _: {}
    """Of a row, as it was and as it is, the subject or broker group whose metadata changes with it (`audit.record`)."""

    def one(self, rows: "QuerySet[M]", name: object) -> M:
        """The first of these rows. Raises NotFound."""
        row = rows.first()
        if row is None:
            raise self.unknown(name)
        return row

    def locked(self, rows: "QuerySet[M]", name: str) -> M:
        """The first of these rows, locked until the transaction ends. Raises NotFound."""
        row = lock(rows)
        if row is None:
            raise self.unknown(name)
        return row

    def unknown(self, name: object) -> NotFound:
        """The error that there is no such row."""
        shown = repr(name[:SHOWN_CHARS_MAX]) if isinstance(name, str) and not name.isdigit() else name
        return NotFound(f"{self._noun} {shown} not found.", code=f"{self.kind}.unknown")

    def exists(self, name: str) -> Conflict:
        """The error that there is a row of this name."""
        return Conflict(f"{self._noun} {name!r} already exists. Choose another name.", code=f"{self.kind}.exists")

    def too_many(self, most: int) -> ChangeRefused:
        """The error that there are as many rows as there may be."""
        text = f"There are already {most} {self.noun.split()[-1]}s, the maximum. Delete one first."
        return ChangeRefused(text, code=f"{self.kind}.too_many")

    @property
    def _noun(self) -> str:
        return self.noun[:1].upper() + self.noun[1:]

    def refuse(self, wrong: Mapping[str, str]) -> None:
        """Raises ChangeRefused when a field has a problem; those of "" have none."""
        if text := joined(wrong):
            found = {key: why for key, why in wrong.items() if why}
            raise ChangeRefused(text, code=f"{self.kind}.invalid", fields=found)

    def check_name(self, name: str, rule: Text) -> None:
        """Raises ChangeRefused when a row can't have this name."""
        if text := rule.problem(name):
            raise ChangeRefused(
                f"{self.noun} name: {name[:SHOWN_CHARS_MAX]!r} {text}",
                code=f"{self.kind}.name_illegal",
                fields={"name": text},
            )

    @contextmanager
    def creating(self, row: M, name: str, *, action: str = "create", **request: Unpack[Request]) -> Iterator["Edit[M]"]:
        """Around the filling of a new row, which is saved at the end, or earlier by `Edit.save`. Raises Conflict if it exists."""
        with changing(dry_run=request.get("dry_run", False)):
            edit = Edit(self, row, None)
            yield edit
            edit.save(self.exists(name))
            edit.end(action, request)

    @contextmanager
    def editing(
        self, locked: Callable[[], M], *, action: str = "update", **request: Unpack[VersionedRequest]
    ) -> Iterator["Edit[M]"]:
        """Around a change of the row that `locked` returns; saved if its description changed. Raises Stale."""
        with changing(dry_run=request.get("dry_run", False)):
            row = locked()
            check_version(
                f"{self.noun} {self.about(row).removeprefix(f'{self.noun} ')}",
                row.version,
                request.get("expected_version"),
            )
            edit = Edit(self, row, self.described(row), _metadata=self.metadata(row))
            yield edit
            edit.end(action, request)


@dataclass(slots=True)
class Edit(Generic[M]):
    """A row that is being made, changed or deleted."""

    resource: Resource[M]
    row: M
    before: dict[str, Any] | None
    notes: tuple[Reason, ...] = ()
    """Notes for the caller (`Change.notes`)."""
    action: str = ""
    """Another action than the one that was announced."""
    change: Change = field(init=False)
    """What was done, once it is."""
    _target: str = ""
    _about: str = ""
    _metadata: Mapping[str, str] = field(default_factory=dict)
    _is_saved: bool = False
    _is_deleted: bool = False

    def set(self, values: Mapping[str, Any], setters: Mapping[str, Callable[[Any], str | None]] | None = None) -> None:
        """Set the row's fields to these values, all or none. Raises ChangeRefused, which names each wrong field.

        `setters` set what is more than an attribute: each gets an allowed value, and returns a problem or "".
        """
        fields, wrong = self.resource.fields, dict[str, str]()
        for key, value in values.items():
            rule = fields.get(key)
            if rule is None:
                wrong[key] = f"unknown; allowed: {', '.join(fields)}"
            elif text := rule.problem(value):
                wrong[key] = text
            elif setters and key in setters:
                wrong[key] = setters[key](rule.stored(value)) or ""
            else:
                setattr(self.row, key, rule.stored(value))
        self.resource.refuse(wrong)

    def save(self, conflict: Conflict) -> None:
        """Save a new row immediately, so that other rows can refer to it. Raises the conflict when another request created it."""
        if not self._is_saved:
            with only_one(str(conflict), conflict.code):
                self.row.save(force_insert=True)
            self._is_saved = True

    def delete(self) -> None:
        self._name()
        self.row.delete()
        self._is_deleted = True

    def _name(self) -> None:
        row, resource = self.row, self.resource
        self._about, self._metadata = resource.about(row), {**self._metadata, **resource.metadata(row)}
        self._target = self._about if resource.target is None else resource.target(row)

    def end(self, action: str, request: VersionedRequest | Request) -> None:
        """Save what changed, and write the audit entry."""
        if not self._is_deleted:
            self._name()
        after = None if self._is_deleted else self.resource.described(self.row)
        if after != self.before:
            if self.before is not None and not self._is_deleted:
                self.row.version += 1
                self.row.save()
            audit.record(
                request["actor"],
                f"{self.resource.kind}.{self.action or action}",
                self._about,
                reason=request.get("reason", ""),
                before=self.before,
                after=after,
                **self._metadata,
            )
        self.change = Change(self._target, self.before, after, 0 if self._is_deleted else self.row.version, self.notes)
