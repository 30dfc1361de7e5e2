"""Why a change is rejected, or nothing is found."""

from collections.abc import Mapping

from qmq.errors import QmqError


class ChangeRefused(QmqError):
    """A change that can't be made as requested. `fields` has the errors by field."""

    code = "change.invalid"

    def __init__(self, message: str, *, code: str | None = None, fields: Mapping[str, str] | None = None) -> None:
        super().__init__(message, code=code)
        self.fields = dict(fields or {})


class NotFound(ChangeRefused):
    """What was to be changed does not exist."""

    code = "change.not_found"


class NotAllowed(ChangeRefused):
    """Another team owns what was to be changed, or the change needs an administrator."""

    code = "access.denied"


class Conflict(ChangeRefused):
    """The thing's state does not allow the change now."""

    code = "change.conflict"


class Stale(ChangeRefused):
    """The object was changed by another request since it was read."""

    code = "change.stale"
