"""Sessions in the database under digests of their keys, so that nothing in a copy of the database can be used to sign in.

The key itself is in the user's cookie only. It has 165 random bits, so a plain digest can't be searched for.
"""

import hashlib
from typing import TYPE_CHECKING, Any

from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.contrib.sessions.base_session import AbstractBaseSession
from django.contrib.sessions.models import Session
from django.utils import timezone

if TYPE_CHECKING:
    from django.db.models import QuerySet

DIGEST_CHARS = 40
"""The length of the column: 160 bits in hexadecimal, which collations that ignore case keep apart."""


def digest(key: str) -> str:
    """Return the primary key of a session's row."""
    return hashlib.sha256(f"qmq session {key}".encode(errors="backslashreplace")).hexdigest()[:DIGEST_CHARS]


class SessionStore(DatabaseStore):
    """Django's sessions in a database: `session_key` is the key in the cookie, the row has its digest.

    The name of the class has to stay the same, as the salt of the rows' signatures contains it.
    """

    def _get_session_from_db(self) -> Session | None:
        return self._loaded(self._rows().first())

    async def _aget_session_from_db(self) -> Session | None:
        return self._loaded(await self._rows().afirst())

    def _rows(self) -> "QuerySet[Session]":
        key = digest(self.session_key or "")
        return Session.objects.filter(session_key=key, expire_date__gt=timezone.now())

    def _loaded(self, row: Session | None) -> Session | None:
        if row is None:
            # As Django does: a key without a session is never taken over, the next save creates another one.
            self._session_key = None
        return row

    def exists(self, session_key: str) -> bool:
        """Return whether there is a row for this key."""
        return super().exists(digest(session_key))

    async def aexists(self, session_key: str) -> bool:
        """As `exists`."""
        return await super().aexists(digest(session_key))

    def create_model_instance(self, data: dict[str, Any]) -> AbstractBaseSession:
        """Return the row to write."""
        return _hashed(super().create_model_instance(data))

    async def acreate_model_instance(self, data: dict[str, Any]) -> AbstractBaseSession:
        """As `create_model_instance`."""
        return _hashed(await super().acreate_model_instance(data))

    def delete(self, session_key: str | None = None) -> None:
        """Delete the row of a key, by default of this session's."""
        if key := session_key or self.session_key:
            super().delete(digest(key))

    async def adelete(self, session_key: str | None = None) -> None:
        """As `delete`."""
        if key := session_key or self.session_key:
            await super().adelete(digest(key))


def _hashed(row: AbstractBaseSession) -> AbstractBaseSession:
    row.session_key = digest(row.session_key)
    return row
