"""/me/ and /roles/: the caller, their rights and sessions."""

from typing import Any
from urllib.parse import urlsplit

from allauth.mfa.models import Authenticator
from django.conf import settings
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

import qmq
from api import downloads
from api.authentication import user_of
from api.base import ApiView
from api.filters import SEARCH, Ordering, searched
from api.pagination import PAGE_MAX
from api.serializers import me as shapes
from api.serializers.bodies import REASON_CHARS_MAX
from console.accounts import preferences, services, sessions
from console.accounts.principals import demands_second_factor
from console.accounts.roles import OF_A_SUBJECT, RIGHTS_OF, RIGHTS_OF_SCOPE, Right
from console.cluster.dead_letters.decisions import REPLAY_MAX
from console.live.consumers import WEBSOCKETS_PER_USER_MAX
from metaserver.services.changes import Change


def _console() -> dict[str, Any]:
    """Settings of the console that its pages use."""
    providers = settings.SOCIALACCOUNT_PROVIDERS.get("openid_connect", {}).get("APPS", [])
    return {
        "version": qmq.__version__,
        "metaserver": ",".join(urlsplit(url).netloc for url in settings.META_URL.split(",")),
        "languages": list(preferences.LANGUAGES),
        "themes": list(preferences.THEMES),
        "single_sign_on": providers[0]["name"] if providers else None,
        "systems": settings.SYSTEMS,
        "limits": {
            "body_bytes": settings.DATA_UPLOAD_MAX_MEMORY_SIZE,
            "page_rows": PAGE_MAX,
            "download_rows": downloads.ROWS_MAX,
            "download_rows_of_nodes": downloads.ROWS_OF_NODES_MAX,
            "reason_chars": REASON_CHARS_MAX,
            "letters_of_one_request": REPLAY_MAX,
            "websockets": WEBSOCKETS_PER_USER_MAX,
        },
    }


class MeView(ApiView):
    """The caller's account."""

    rights = {"GET": Right.OWN_ACCOUNT, "PATCH": Right.OWN_ACCOUNT}
    serializer_class = shapes.Me
    bodies = {"PATCH": shapes.MyChange}

    @extend_schema(operation_id="me_get")
    def get(self, request: Request) -> Response:
        """Return the caller and their rights."""
        user, principal = user_of(request), self.principal
        body = {
            "id": str(user.pk),
            **{name: getattr(user, name) for name in ("username", "email", "first_name", "last_name", "language")},
            "role": principal.role,
            "teams": sorted(principal.teams),
            "rights": sorted(right for right in Right if principal.has(right)),
            "preferences": preferences.shown(user.preferences),
            "demands_second_factor": demands_second_factor(user),
            "has_password": user.has_usable_password(),
            "has_second_factor": Authenticator.objects.filter(user=user, type=Authenticator.Type.TOTP).exists(),
            "lacks_second_factor": principal.lacks_second_factor,
            "proved_recently": sessions.proved_recently(request._request),
            "version": str(user.version),
            "console": _console(),
        }
        return self.tagged(body, user.version)

    def patch(self, request: Request) -> Change:
        """Update the caller's name, language or preferences; omitted fields keep their value."""
        return services.update_user(user_of(request).pk, self.body(), **self.versioned_arguments)


class MySessionsView(ApiView):
    """The caller's sessions."""

    rights = {"GET": Right.OWN_ACCOUNT, "DELETE": Right.OWN_ACCOUNT}
    is_list = True
    versioned_methods = frozenset()
    serializer_class = shapes.SessionRow
    filter_backends = [Ordering]
    ordering_fields = ("id", "started_at", "seen_at", "address", "user_agent")
    ordering = ("-id",)

    @extend_schema(operation_id="me_sessions", parameters=[SEARCH])
    def get(self, request: Request) -> Response:
        """List the caller's sessions."""
        rows = searched(request, user_of(request).sessions.all(), "address", "user_agent")
        return self.listed(rows, this=request._request.session.get(sessions.KEY))

    @extend_schema(
        operation_id="me_end_sessions",
        parameters=[
            OpenApiParameter("keep_this", OpenApiTypes.BOOL, description="End all sessions except the current one.")
        ],
    )
    def delete(self, request: Request) -> Change:
        """Sign out everywhere; with `keep_this` except in this session."""
        kept = request._request.session.get(sessions.KEY) if self.flag("keep_this") else None
        return services.end_sessions(user_of(request).pk, but=kept, **self.arguments)


class MySessionView(ApiView):
    """Sign out one session."""

    rights = {"DELETE": Right.OWN_ACCOUNT}
    versioned_methods = frozenset()

    @extend_schema(operation_id="me_end_session")
    def delete(self, request: Request, session_id: int) -> Change:
        return services.end_own_session(user_of(request), session_id, actor=self.actor, dry_run=self.dry_run)


class RolesView(ApiView):
    """List the rights of roles and of token scopes."""

    rights = {"GET": Right.READ}
    serializer_class = shapes.RoleTable

    def get(self, request: Request) -> Response:
        return Response(
            {
                "roles": [{"name": role, "rights": sorted(rights)} for role, rights in RIGHTS_OF.items()],
                "scopes": [{"name": scope, "rights": sorted(rights)} for scope, rights in RIGHTS_OF_SCOPE.items()],
                "rights_of_a_subject": sorted(OF_A_SUBJECT),
            }
        )
