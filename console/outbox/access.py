"""Connections to registered databases: only to addresses that the operator of the system has listed.

The host's name is resolved for each connection, all its addresses are checked, and the connection goes to a checked address: a
name that changes in between gains nothing.
"""

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import replace

from django.conf import settings

from console.host_addresses import Resolver, is_in, networks_of, resolve, system_resolver
from console.outbox.models import PASSWORDS, OutboxDatabase
from qmq.errors import DatabaseFailed
from qmq.outbox.databases import STATEMENT_SECONDS, Address, Connection, Kind, Tls, connect

ADDRESSES_TRIED_MAX = 2
NETWORKS_SETTING = "QMQ_OUTBOX_NETWORKS"
FOLDER_SETTING = "QMQ_OUTBOX_SQLITE_FOLDER"


def address_of(row: OutboxDatabase) -> Address:
    """Where a registered database is, with its password. Raises SealBroken."""
    password = str(PASSWORDS.unseal(row.sealed).get("password") or "")
    return Address(Kind(row.kind), row.database, row.host, row.port, row.user, password, Tls(row.tls))


def connect_checked(address: Address, *, resolver: Resolver = system_resolver) -> Connection:
    """Open a connection, if the database's addresses are allowed. The name look-up, opening and each statement may take
    STATEMENT_SECONDS.

    Raises:
        DatabaseFailed: as `qmq.outbox.databases.connect`; `database.address_forbidden` for an address that is not allowed.
    """
    if address.kind is Kind.SQLITE:
        return connect(replace(address, database=checked_path(address.database)), seconds=STATEMENT_SECONDS)
    failed: DatabaseFailed | None = None
    for found in checked_addresses(address.host, address.port, resolver)[:ADDRESSES_TRIED_MAX]:
        try:
            return connect(address, host_address=found, seconds=STATEMENT_SECONDS)
        except DatabaseFailed as error:
            failed = error
            if error.code != "database.unreachable":
                break
    assert failed is not None, "a host has an address, or the look-up failed"
    raise failed


def checked_addresses(host: str, port: int, resolver: Resolver = system_resolver) -> Sequence[str]:
    """The addresses of a host, all of which are allowed.

    Raises:
        DatabaseFailed: one is not allowed, or there is none.
    """
    allowed = networks_of(settings.OUTBOX_NETWORKS)
    if not allowed:
        raise _forbidden(
            f"{NETWORKS_SETTING} is empty, so no host can be connected to. List the networks of the databases."
        )
    try:
        # An address is not looked up: look-ups of other hosts, of which there are few at a time, may hang.
        found = [host] if _is_address(host) else resolve(resolver, host, port, STATEMENT_SECONDS)
    except OSError as error:
        raise DatabaseFailed(str(error), code="database.unreachable", retriable=True) from error
    for text in found:
        # One forbidden address forbids the host: which one is used must not be a matter of luck.
        if not is_in(ipaddress.ip_address(text.partition("%")[0]), allowed):
            raise _forbidden(f"{host} has the address {text}, which is in no network of {NETWORKS_SETTING}")
    return found


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def checked_path(path: str) -> str:
    """The file of an SQLite database, which lies in the folder that the operator has named.

    Raises:
        DatabaseFailed: no folder is named, or the file lies elsewhere.
    """
    if not settings.OUTBOX_SQLITE_FOLDER:
        raise _forbidden(f"{FOLDER_SETTING} is not set, so no SQLite database can be used")
    folder = os.path.realpath(settings.OUTBOX_SQLITE_FOLDER)
    found = os.path.realpath(os.path.join(folder, path))
    if os.path.commonpath([folder, found]) != folder or found == folder:
        raise _forbidden(f"{path} is not in the folder of {FOLDER_SETTING}")
    return found


def _forbidden(text: str) -> DatabaseFailed:
    return DatabaseFailed(text, code="database.address_forbidden")
