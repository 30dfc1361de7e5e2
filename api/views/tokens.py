"""/tokens/."""

from datetime import timedelta

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.authentication import user_of
from api.base import ApiView
from api.filters import SEARCH, Ordering, searched
from api.serializers import tokens as shapes
from console.accounts import tokens as service
from console.accounts.models import ApiToken
from console.accounts.roles import Right
from metaserver.errors import NotFound
from metaserver.services.changes import Change


class TokensView(ApiView):
    """API tokens."""

    rights = {"GET": Right.OWN_ACCOUNT, "POST": Right.OWN_ACCOUNT}
    is_list = True
    proof_methods = frozenset({"POST"})
    serializer_class = shapes.TokenRow
    bodies = {"POST": shapes.NewToken}
    answers = {"POST": shapes.MadeToken}
    filter_backends = [Ordering]
    ordering_fields = ("id", "name", "created_at", "expires_at", "last_used_at", "revoked_at")
    ordering = ("-id",)

    def _rows(self) -> "QuerySet[ApiToken]":
        rows = ApiToken.objects.select_related("owner")
        owner = self.request.query_params.get("owner")
        mine = user_of(self.request).username
        if owner is not None and owner != mine:
            self.require(Right.CHANGE_ACCOUNTS)
        return rows.filter(owner__username=mine if owner is None else owner)

    @extend_schema(
        parameters=[
            OpenApiParameter("owner", OpenApiTypes.STR, description="Tokens of another user; administrators only."),
            OpenApiParameter("is_live", OpenApiTypes.BOOL, description="Only active tokens."),
            SEARCH,
        ],
    )
    def get(self, request: Request) -> Response:
        """List the caller's API tokens, newest first by default."""
        rows = self._rows()
        if "is_live" in request.query_params:
            live = {"revoked_at": None, "expires_at__gt": timezone.now()}
            rows = rows.filter(**live) if self.flag("is_live") else rows.exclude(**live)
        return self.listed(searched(request, rows, "name", "prefix"))

    def post(self, request: Request) -> Response:
        """Create an API token for the caller. The response contains the token; it can't be read again."""
        given = self.body()
        change, token, made = service.create_token(
            user_of(request), given["name"], given["scopes"], timedelta(days=given["expires_in_days"]), **self.arguments
        )
        response = self.changed(change)
        response.data |= {"id": str(made.pk) if made is not None else None, "token": token}
        response.shown_once = ("token",)  # type: ignore[attr-defined]
        return response


class TokenView(ApiView):
    """Revoke an API token of the caller; administrators can revoke any token."""

    rights = {"DELETE": Right.OWN_ACCOUNT}
    versioned_methods = frozenset()

    @extend_schema(operation_id="tokens_revoke")
    def delete(self, request: Request, token_id: int) -> Change:
        found = ApiToken.objects.filter(pk=token_id).first()
        if (
            found is not None
            and found.owner_id != user_of(request).pk
            and not self.principal.may(Right.CHANGE_ACCOUNTS)
        ):
            found = None  # another user's: answered like an unknown token
        if found is None:
            raise NotFound(f"Token {token_id} not found.", code="token.unknown")
        return service.revoke_token(found.pk, **self.arguments)
