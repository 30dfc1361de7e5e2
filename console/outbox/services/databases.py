"""Registered databases: make, change, delete, test. The password goes in and never out.

A change that concerns the connection tests it first, outside of any transaction: what is saved enabled can be relayed. A database
that can't be reached can be saved disabled.
"""

from collections.abc import Mapping
from typing import Any, Unpack

from django.db.models import QuerySet

from console.outbox.access import connect_checked
from console.outbox.markers import BROKER_RETENTION
from console.outbox.models import PASSWORDS, OutboxDatabase
from console.outbox.usability import Connector, Usability, check_usability
from console.resource_fields import NAME, TEAM, team_problem, with_id
from metaserver.errors import ChangeRefused
from metaserver.services import audit
from metaserver.services.changes import Change, Request, VersionedRequest, changing
from metaserver.services.fields import Choice, Flag, Text, Whole
from metaserver.services.notes import NoteCode
from metaserver.services.resources import Edit, Resource
from qmq.errors import SettingError
from qmq.idempotent.cleanup import RETENTION
from qmq.outbox.databases import PORTS, Kind, Tls
from qmq.outbox.dialects import TableName
from qmq.protocol.reasons import Reason

DATABASES_MAX = 200
_WHERE = ("host", "port", "tls")
"""A change of one of these requires the password again: otherwise it could be sent to another server."""
_OF_CONNECTIONS = ("kind", "host", "port", "database", "user", "sealed", "table", "tls")
_OF_MARKERS = (*_OF_CONNECTIONS, "marker_table", "marker_days")
_MEASURED = ("measured_at", "pending", "oldest_ms", "failed", "rows_per_second", "error_since")


def described(row: OutboxDatabase) -> dict[str, Any]:
    """A database as audit entries show it: `password` changes when it does, and says nothing of it."""
    return {
        "kind": row.kind,
        **{name: getattr(row, name) for name in OUTBOX_DATABASE.fields if name != "password"},
        "owner": row.owner or None,
        "password": PASSWORDS.fingerprint(row.sealed),
    }


def _table_problem(text: str) -> str:
    try:
        TableName.parse(text)
    except SettingError as error:
        return str(error).partition(": ")[2]
    return ""


def _marker_table_problem(text: str) -> str:
    return _table_problem(text) if text else ""


def _database_problem(text: str) -> str:
    # libpq can take such a name for a whole connection string.
    return "must not contain '=' or '://'" if "=" in text or "://" in text else ""


OUTBOX_DATABASE: Resource[OutboxDatabase] = Resource(
    kind="outbox_database",
    noun="outbox database",
    fields={
        "name": NAME,
        "host": Text(
            chars_max=253,
            pattern=r"[A-Za-z0-9._:-]*",
            pattern_problem="must be a host name or an IP address",
            help="name or IP address in a network of QMQ_OUTBOX_NETWORKS; empty for SQLite",
        ),
        "port": Whole(minimum=0, maximum=65_535, help="default: the usual port; 0 for SQLite"),
        "database": Text(
            chars_min=1,
            chars_max=300,
            is_line=True,
            check=_database_problem,
            help="name of the database; of SQLite, the file in the folder of QMQ_OUTBOX_SQLITE_FOLDER",
        ),
        "user": Text(chars_max=128, is_line=True),
        "password": Text(
            nullable=True, chars_max=500, is_line=True, is_trimmed=False, help="can't be read again; null: none"
        ),
        "table": Text(chars_min=1, chars_max=127, check=_table_problem, help="`table` or `schema.table`"),
        "tls": Choice(
            values=[tls.value for tls in Tls], help="verify checks the certificate with the system's authorities"
        ),
        "owner": TEAM,
        "is_enabled": Flag(),
        "rows_per_second_max": Whole(nullable=True, minimum=1, maximum=1_000_000, help="null: no limit"),
        "age_hours_max": Whole(
            nullable=True,
            minimum=1,
            maximum=87_600,
            unit="hours",
            help="older rows that fail are left to an operator; null: never",
        ),
        "marker_table": Text(
            chars_max=127,
            check=_marker_table_problem,
            help="table with the markers of idempotent handlers, of which old ones are deleted; empty: none are",
        ),
        "marker_days": Whole(
            minimum=1,
            maximum=3_650,
            unit="days",
            help=f"how long markers are kept; default: {RETENTION.days}. At least {BROKER_RETENTION.days} days, and the longest"
            " retention of a subject",
        ),
    },
    described=described,
    about=lambda row: f"outbox database {row.name}",
    target=lambda row: str(row.pk),
)
KIND = Choice(values=[kind.value for kind in Kind])
"""Given once, when the database is registered."""


def one(rows: "QuerySet[OutboxDatabase]", database: str) -> OutboxDatabase:
    """A database by the ID in an address. Raises NotFound."""
    return OUTBOX_DATABASE.one(with_id(rows, database), database)


def create_database(
    kind: str, values: Mapping[str, Any], *, connector: Connector = connect_checked, **request: Unpack[Request]
) -> Change:
    """Register a database. `name` and `database` are required, and `host` unless it is SQLite.

    Raises:
        ChangeRefused: a value is not allowed, the test failed, or there are DATABASES_MAX databases.
        Conflict: there is a database of this name.
    """
    needed = {"name", "database"} | (set() if kind == Kind.SQLITE else {"host"})
    wrong = {key: "is required" for key in sorted(needed) if not values.get(key)}
    OUTBOX_DATABASE.refuse({"kind": text} if (text := KIND.problem(kind)) else wrong)

    def make(**given: Unpack[Request]) -> Edit[OutboxDatabase]:
        row = OutboxDatabase(kind=kind, port=PORTS[Kind(kind)])
        with OUTBOX_DATABASE.creating(row, values["name"], **given) as edit:
            if OutboxDatabase.objects.count() >= DATABASES_MAX:
                raise OUTBOX_DATABASE.too_many(DATABASES_MAX)
            _set(edit, values)
            edit.notes = _notes(row)
        return edit

    preview: Request = {**request, "dry_run": True}
    edit = make(**preview)
    if edit.row.is_enabled:
        _refuse_unusable(check_usability(edit.row, connector))
    return edit.change if request.get("dry_run") else make(**request).change


def update_database(
    database: str,
    values: Mapping[str, Any],
    *,
    connector: Connector = connect_checked,
    **request: Unpack[VersionedRequest],
) -> Change:
    """Change what `values` names and nothing else. The kind can't be changed.

    Raises:
        NotFound, Stale, ChangeRefused, Conflict.
    """

    def make(**given: Unpack[VersionedRequest]) -> tuple[Edit[OutboxDatabase], bool, int]:
        with OUTBOX_DATABASE.editing(lambda: locked(database), **given) as edit:
            row, version = edit.row, edit.row.version
            before = {name: getattr(row, name) for name in (*_OF_MARKERS, "is_enabled")}
            _set(edit, values)
            _require_password(row, before, values)
            changed = {name for name, value in before.items() if getattr(row, name) != value}
            is_other = not changed.isdisjoint(_OF_CONNECTIONS)
            if is_other:
                _forget_numbers(row)
            if not changed.isdisjoint(_OF_MARKERS):
                # A cleanup is due again.
                row.marker_cleanup_at, row.marker_error, row.marker_error_code = None, "", ""
            edit.notes = _notes(row)
        return edit, row.is_enabled and (is_other or bool(changed & {"marker_table", "is_enabled"})), version

    preview: VersionedRequest = {**request, "dry_run": True}
    edit, needs_test, version = make(**preview)
    if needs_test:
        _refuse_unusable(check_usability(edit.row, connector))
    if request.get("dry_run"):
        return edit.change
    # What was tested is what is saved.
    tested: VersionedRequest = {**request, "expected_version": version}
    return make(**tested)[0].change


def delete_database(database: str, **request: Unpack[VersionedRequest]) -> Change:
    """Stop relaying a database and forget it. Its rows stay where they are.

    Raises:
        NotFound, Stale.
    """
    with OUTBOX_DATABASE.editing(lambda: locked(database), action="delete", **request) as edit:
        edit.notes = (Reason.of(NoteCode.ROWS_STAY),)
        edit.delete()
    return edit.change


def try_database(
    database: str, *, connector: Connector = connect_checked, **request: Unpack[Request]
) -> tuple[OutboxDatabase, Usability]:
    """Test a database and return the result. A dry run writes no audit entry.

    Raises:
        NotFound.
    """
    row = one(OutboxDatabase.objects.all(), database)
    found = check_usability(row, connector)
    with changing(dry_run=request.get("dry_run", False)):
        audit.record(
            actor=request["actor"], action="outbox_database.test", target=f"outbox database {row.name}",
            reason=request.get("reason", ""), after={"is_usable": found.is_usable, "detail": found.detail[:500]},
        )  # fmt: skip
    return row, found


def locked(database: str) -> OutboxDatabase:
    """A database's row, locked until the transaction ends. Raises NotFound."""
    return OUTBOX_DATABASE.locked(with_id(OutboxDatabase.objects.all(), database), database)


def _set(edit: Edit[OutboxDatabase], values: Mapping[str, Any]) -> None:
    row = edit.row

    def set_password(value: str | None) -> str:
        row.sealed = PASSWORDS.seal({"password": value}) if value else ""
        return ""

    def set_owner(value: str | None) -> str:
        row.owner = value or ""
        return team_problem(value)

    edit.set(values, {"password": set_password, "owner": set_owner})
    if row.kind == Kind.SQLITE:
        given = {name: "not applicable to SQLite" for name in ("host", "user", "password") if values.get(name)}
        given |= {"tls": "not applicable to SQLite"} if row.tls != Tls.OFF else {}
        OUTBOX_DATABASE.refuse(given)
        row.port = 0
    else:
        OUTBOX_DATABASE.refuse({"host": "" if row.host else "is required", "port": "" if row.port else "must not be 0"})
    if OutboxDatabase.objects.filter(name=row.name).exclude(pk=row.pk).exists():
        raise OUTBOX_DATABASE.exists(row.name)


def _require_password(row: OutboxDatabase, before: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    moved = [name for name in _WHERE if getattr(row, name) != before[name]]
    if moved and row.sealed and "password" not in values:
        OUTBOX_DATABASE.refuse({"password": f"must be entered again, because {', '.join(moved)} changed"})


def _forget_numbers(row: OutboxDatabase) -> None:
    """What was measured is about another database."""
    for name in _MEASURED:
        setattr(row, name, None)
    row.leader = row.error = row.error_code = ""


def _notes(row: OutboxDatabase) -> tuple[Reason, ...]:
    return () if row.is_enabled else (Reason.of(NoteCode.DATABASE_DISABLED),)


def _refuse_unusable(found: Usability) -> None:
    if not found.is_usable:
        advice = "Correct it, or save the database disabled (is_enabled: false)."
        raise ChangeRefused(
            f"{found.detail.removesuffix('.')}. {advice}", code=found.code, fields={found.field: found.advice}
        )
