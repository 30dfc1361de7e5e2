"""Re-authentication: an open session alone, such as one in an unattended browser, can't create tokens or administrators."""

from rest_framework.request import Request

from api.problems import Problem
from console.accounts.sessions import REAUTHENTICATION_SECONDS, proved_recently

CODE = "access.reauthenticate"


def require_recent_proof(request: Request) -> None:
    """Raise 403 unless the caller entered a password or a code within the last minutes, by signing in or confirming it."""
    if not proved_recently(request._request):
        minutes = REAUTHENTICATION_SECONDS // 60
        raise Problem(
            403,
            CODE,
            f"Enter your password or a code again. The last confirmation was more than {minutes} minutes ago.",
        )
