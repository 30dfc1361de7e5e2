"""/users/ and /teams/."""

from typing import Any

import django_filters
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone
from django_filters.rest_framework import DjangoFilterBackend
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.base import ApiView
from api.filters import SEARCH, Ordering, PartFilter, TruthFilter, containing, searched
from api.schema import MADE, ChangeSerializer
from api.serializers import users as shapes
from api.serializers.bodies import Reason
from console.accounts import services
from console.accounts.models import ApiToken, User, UserSession
from console.accounts.roles import Right, Role
from metaserver import queries
from metaserver.services import teams as team_service
from metaserver.services.changes import NotFound


class UserFilter(django_filters.FilterSet):  # type: ignore[misc]
    """What a list of users can be narrowed by."""

    search = django_filters.CharFilter(method="by_text", label="substring of the name or email address")
    role = django_filters.ChoiceFilter(choices=[(role.value, role.value) for role in Role])
    team = django_filters.CharFilter("teams__name", label="team")
    is_active = TruthFilter("is_active")

    def by_text(self, rows: "QuerySet[User]", name: str, value: str) -> "QuerySet[User]":
        """Rows that have the text in a name or the address."""
        return containing(rows, value, "username", "email", "first_name", "last_name")


def users() -> "QuerySet[User]":
    """Users with their teams and counts: two queries a page."""

    def counted(rows: "QuerySet[Any]", key: str) -> Coalesce:
        found = rows.filter(**{key: OuterRef("pk")}).order_by().values(key).annotate(count=Count("pk"))
        return Coalesce(Subquery(found.values("count")), 0)

    live = ApiToken.objects.filter(revoked_at=None, expires_at__gt=timezone.now())
    return User.objects.prefetch_related("teams").annotate(
        session_count=counted(UserSession.objects.all(), "user"), token_count=counted(live, "owner")
    )


def row(user: Any) -> dict[str, Any]:
    """A user as lists and details show it."""
    return {
        "id": str(user.pk),
        "username": user.username,
        "email": user.email,
        "first_name": user.first_name,
        "last_name": user.last_name,
        "language": user.language,
        "role": user.role,
        "teams": [team.name for team in user.teams.all()],
        "is_active": user.is_active,
        "has_password": user.has_usable_password(),
        "sessions": user.session_count,
        "tokens": user.token_count,
        "last_login": user.last_login,
        "created_at": user.date_joined,
        "version": str(user.version),
    }


class UsersView(ApiView):
    """Users."""

    rights = {"GET": Right.CHANGE_ACCOUNTS, "POST": Right.CHANGE_ACCOUNTS}
    proof_methods = frozenset({"POST"})
    serializer_class = shapes.UserRow
    filter_backends = [DjangoFilterBackend, Ordering]
    filterset_class = UserFilter
    ordering_fields = ("username", "email", "role", "is_active", "sessions", "tokens", "last_login", "created_at")
    ordering_paths = {"sessions": "session_count", "tokens": "token_count", "created_at": "date_joined"}
    ordering = ("username",)

    def get_queryset(self) -> "QuerySet[User]":
        return users()

    @extend_schema(operation_id="users_list", responses=shapes.UserRow(many=True))
    def get(self, request: Request) -> Response:
        """List users."""
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response([row(user) for user in page or []])

    @extend_schema(
        operation_id="users_create", request=shapes.NewUser, responses={200: shapes.MadeUser, 201: shapes.MadeUser}
    )
    def post(self, request: Request) -> Response:
        """Make a user. Without a password a random one is made and shown in this answer, once."""
        shape = shapes.NewUser(data=request.data)
        shape.is_valid(raise_exception=True)
        values = dict(shape.validated_data)
        name, password, reason = values.pop("username"), values.pop("password", None), values.pop("reason", "")
        made = services.create_user(
            name, values, password=password, actor=self.actor, reason=reason, dry_run=self.dry_run
        )
        response = self.changed(made.change, 201)
        response.data |= {"id": str(made.id) if made.id is not None else None, "password": made.secret}
        response.shown_once = ("password",)  # type: ignore[attr-defined]
        return response


class UserView(ApiView):
    """One user."""

    rights = {"GET": Right.CHANGE_ACCOUNTS, "PATCH": Right.CHANGE_ACCOUNTS}
    proof_methods = frozenset({"PATCH"})

    @extend_schema(operation_id="users_get", responses=shapes.UserRow)
    def get(self, request: Request, user_id: int) -> Response:
        """One user."""
        found = users().filter(pk=user_id).first()
        if found is None:
            raise NotFound(f"User {user_id} not found.", code="user.unknown")
        return self.tagged(row(found), found.version)

    @extend_schema(operation_id="users_update", request=shapes.UserChange, responses=ChangeSerializer)
    def patch(self, request: Request, user_id: int) -> Response:
        """Change what the body names. `is_active: false` ends the user's sessions and revokes their tokens at once."""
        shape = shapes.UserChange(data=request.data)
        shape.is_valid(raise_exception=True)
        values = dict(shape.validated_data)
        reason = values.pop("reason", "")
        change = services.update_user(
            user_id, values, actor=self.actor, reason=reason,
            expected_version=self.expected_version, dry_run=self.dry_run,
        )  # fmt: skip
        return self.changed(change)


class EndSessionsView(ApiView):
    """Signing somebody out."""

    rights = {"POST": Right.CHANGE_ACCOUNTS}

    @extend_schema(operation_id="users_end_sessions", request=Reason, responses=ChangeSerializer)
    def post(self, request: Request, user_id: int) -> Response:
        """Sign a user out everywhere; tokens stay."""
        change = services.end_sessions(user_id, actor=self.actor, reason=self.reason, dry_run=self.dry_run)
        return self.changed(change)


class UnlockView(ApiView):
    """A user's lock after failed sign-ins."""

    rights = {"POST": Right.CHANGE_ACCOUNTS}

    @extend_schema(operation_id="users_unlock", request=Reason, responses=ChangeSerializer)
    def post(self, request: Request, user_id: int) -> Response:
        """Clear the counts of failed sign-ins of a locked user: they can sign in from anywhere at once."""
        change = services.unlock_user(user_id, actor=self.actor, reason=self.reason, dry_run=self.dry_run)
        return self.changed(change)


class TeamFilter(django_filters.FilterSet):  # type: ignore[misc]
    """What a list of teams can be narrowed by."""

    search = PartFilter("name", label="substring of the name")


def teams() -> "QuerySet[Any]":
    """Teams with the counts of their subjects and members."""
    memberships: QuerySet[Any] = User.teams.through.objects.filter(team=OuterRef("pk")).order_by().values("team")
    counted = memberships.annotate(count=Count("pk")).values("count")
    return queries.teams().annotate(member_count=Coalesce(Subquery(counted), 0))


def team_row(team: Any) -> dict[str, Any]:
    """A team as lists and details show it."""
    return {
        "name": team.name,
        "description": team.description,
        "subjects": team.subject_count,
        "members": team.member_count,
        "version": str(team.version),
        "created_at": team.created_at,
    }


class TeamsView(ApiView):
    """Teams."""

    rights = {"GET": Right.READ, "POST": Right.CHANGE_ACCOUNTS}
    serializer_class = shapes.TeamRow
    filter_backends = [DjangoFilterBackend, Ordering]
    filterset_class = TeamFilter
    ordering_fields = ("name", "subjects", "members", "created_at")
    ordering_paths = {"subjects": "subject_count", "members": "member_count"}
    ordering = ("name",)

    def get_queryset(self) -> "QuerySet[Any]":
        return teams()

    @extend_schema(operation_id="teams_list", responses=shapes.TeamRow(many=True))
    def get(self, request: Request) -> Response:
        """List teams."""
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response([team_row(team) for team in page or []])

    @extend_schema(operation_id="teams_create", request=shapes.NewTeam, responses=MADE)
    def post(self, request: Request) -> Response:
        """Make a team."""
        shape = shapes.NewTeam(data=request.data)
        shape.is_valid(raise_exception=True)
        given = shape.validated_data
        change = team_service.create_team(
            given["name"], given.get("description", ""),
            actor=self.actor, reason=given.get("reason", ""), dry_run=self.dry_run,
        )  # fmt: skip
        return self.changed(change, 201)


class TeamView(ApiView):
    """One team."""

    rights = {"GET": Right.READ, "PATCH": Right.CHANGE_ACCOUNTS, "DELETE": Right.CHANGE_ACCOUNTS}

    @extend_schema(operation_id="teams_get", responses=shapes.TeamRow)
    def get(self, request: Request, team: str) -> Response:
        """One team."""
        found = teams().filter(name=team).first()
        if found is None:
            raise NotFound(f"Team {team!r} not found.", code="team.unknown")
        return self.tagged(team_row(found), found.version)

    @extend_schema(operation_id="teams_update", request=shapes.TeamChange, responses=ChangeSerializer)
    def patch(self, request: Request, team: str) -> Response:
        """Describe a team anew."""
        shape = shapes.TeamChange(data=request.data)
        shape.is_valid(raise_exception=True)
        change = team_service.update_team(
            team, shape.validated_data["description"], actor=self.actor, reason=self.reason,
            expected_version=self.expected_version, dry_run=self.dry_run,
        )  # fmt: skip
        return self.changed(change)

    @extend_schema(operation_id="teams_delete", responses=ChangeSerializer)
    def delete(self, request: Request, team: str) -> Response:
        """Remove a team that owns no subjects; its members lose nothing else."""
        change = team_service.delete_team(
            team, actor=self.actor, reason=self.reason,
            expected_version=self.expected_version, dry_run=self.dry_run,
        )  # fmt: skip
        return self.changed(change)


class MembersView(ApiView):
    """Who is in a team."""

    rights = {"GET": Right.READ, "PUT": Right.CHANGE_ACCOUNTS}
    proof_methods = frozenset({"PUT"})
    serializer_class = shapes.Member
    filter_backends = [Ordering]
    ordering_fields = ("username", "role", "is_active")
    ordering = ("username",)

    @extend_schema(operation_id="teams_members", parameters=[SEARCH], responses=shapes.Member(many=True))
    def get(self, request: Request, team: str) -> Response:
        """List the members of a team."""
        if not queries.teams().filter(name=team).exists():
            raise NotFound(f"Team {team!r} not found.", code="team.unknown")
        page = self.paginate_queryset(searched(request, User.objects.filter(teams__name=team), "username"))
        rows = [{"username": user.username, "role": user.role, "is_active": user.is_active} for user in page or []]
        return self.get_paginated_response(rows)

    @extend_schema(operation_id="teams_set_members", request=shapes.Members, responses=ChangeSerializer)
    def put(self, request: Request, team: str) -> Response:
        """Make exactly these users the members."""
        shape = shapes.Members(data=request.data)
        shape.is_valid(raise_exception=True)
        change = services.set_members(
            team, shape.validated_data["members"], actor=self.actor, reason=self.reason,
            expected_version=self.expected_version, dry_run=self.dry_run,
        )  # fmt: skip
        return self.changed(change)
