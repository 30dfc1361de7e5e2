"""What takes more than an open session: whoever sits at a browser somebody left open may not make keys or administrators."""

from rest_framework.request import Request

from api.problems import Problem
from console.accounts.sessions import REAUTHENTICATION_SECONDS, proved_recently

CODE = "access.reauthenticate"


def require_recent_proof(request: Request) -> None:
    """Raises 403 unless whoever asks gave a password or a code within the last minutes, by signing in or at
    /_allauth/browser/v1/auth/reauthenticate."""
    if not proved_recently(request._request):
        minutes = REAUTHENTICATION_SECONDS // 60
        raise Problem(
            403,
            CODE,
            f"Enter your password or a code again. The last confirmation was more than {minutes} minutes ago.",
        )
