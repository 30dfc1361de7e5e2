"""/users/ and /teams/."""

from typing import Any

import django_filters
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.base import ApiView
from api.filters import SEARCH, Ordering, PartFilter, TruthFilter, searched
from api.generics import ListView, action
from api.serializers import users as shapes
from console.accounts import services
from console.accounts.models import ApiToken, User, UserSession
from console.accounts.roles import Right, Role
from metaserver import queries
from metaserver.services import teams as team_service
from metaserver.services.changes import Change


def _counted(rows: "QuerySet[Any]", key: str) -> Coalesce:
    found = rows.filter(**{key: OuterRef("pk")}).order_by().values(key).annotate(count=Count("pk"))
    return Coalesce(Subquery(found.values("count")), 0)


def users() -> "QuerySet[User]":
    """Return users with teams and counts: two queries per page."""

    live = ApiToken.objects.filter(revoked_at=None, expires_at__gt=timezone.now())
    return User.objects.prefetch_related("teams").annotate(
        session_count=_counted(UserSession.objects.all(), "user"), token_count=_counted(live, "owner")
    )


class UsersView(ListView):
    """List users."""

    rights = {"GET": Right.CHANGE_ACCOUNTS, "POST": Right.CHANGE_ACCOUNTS}
    proof_methods = frozenset({"POST"})
    serializer_class = shapes.UserRow
    bodies = {"POST": shapes.NewUser}
    answers = {"POST": shapes.MadeUser}
    rows = staticmethod(users)
    filters = {
        "search": PartFilter(
            "username", "email", "first_name", "last_name", label="words that occur in the name or email address"
        ),
        "role": django_filters.ChoiceFilter(choices=[(role.value, role.value) for role in Role]),
        "team": django_filters.CharFilter("teams__name", label="team"),
        "is_active": TruthFilter("is_active"),
    }
    ordering_fields = ("username", "email", "role", "is_active", "sessions", "tokens", "last_login", "created_at")
    ordering_paths = {"sessions": "session_count", "tokens": "token_count", "created_at": "date_joined"}
    ordering = ("username",)

    def post(self, request: Request) -> Response:
        """Create a user. Without a password a random one is generated; the response contains it, and it can't be read again."""
        values = self.body()
        name, password = values.pop("username"), values.pop("password", None)
        made = services.create_user(name, values, password=password, **self.arguments)
        response = self.changed(made.change)
        response.data |= {"id": str(made.id) if made.id is not None else None, "password": made.secret}
        response.shown_once = ("password",)  # type: ignore[attr-defined]
        return response


class UserView(ApiView):
    """One user."""

    serializer_class = shapes.UserRow
    rights = {"GET": Right.CHANGE_ACCOUNTS, "PATCH": Right.CHANGE_ACCOUNTS}
    bodies = {"PATCH": shapes.UserChange}
    proof_methods = frozenset({"PATCH"})

    def get(self, request: Request, user_id: int) -> Response:
        """Return one user."""
        return self.one(services.USER.one(users().filter(pk=user_id), user_id))

    def patch(self, request: Request, user_id: int) -> Change:
        """Update a user; omitted fields keep their value. `is_active: false` ends the user's sessions and revokes their API
        tokens immediately.
        """
        return services.update_user(user_id, self.body(), **self.versioned_arguments)


EndSessionsView = action(
    Right.CHANGE_ACCOUNTS,
    lambda view, user_id: services.end_sessions(user_id, **view.arguments),
    "Sign a user out everywhere; API tokens remain valid.",
    is_versioned=False,
)
UnlockView = action(
    Right.CHANGE_ACCOUNTS,
    lambda view, user_id: services.unlock_user(user_id, **view.arguments),
    "Reset the failed sign-in counts of a locked user, so that they can sign in again immediately.",
    is_versioned=False,
)


def teams() -> "QuerySet[Any]":
    """Return teams with the numbers of their subjects and members."""
    return queries.teams().annotate(member_count=_counted(User.teams.through.objects.all(), "team"))


class TeamsView(ListView):
    """List teams."""

    rights = {"GET": Right.READ, "POST": Right.CHANGE_ACCOUNTS}
    serializer_class = shapes.TeamRow
    bodies = {"POST": shapes.NewTeam}
    rows = staticmethod(teams)
    filters = {
        "search": PartFilter("name", label="words that occur in the name"),
    }
    ordering_fields = ("name", "subjects", "members", "created_at")
    ordering_paths = {"subjects": "subject_count", "members": "member_count"}
    ordering = ("name",)

    def post(self, request: Request) -> Change:
        """Create a team."""
        given = self.body()
        return team_service.create_team(given["name"], given.get("description", ""), **self.arguments)


class TeamView(ApiView):
    """One team."""

    serializer_class = shapes.TeamRow
    rights = {"GET": Right.READ, "PATCH": Right.CHANGE_ACCOUNTS, "DELETE": Right.CHANGE_ACCOUNTS}
    bodies = {"PATCH": shapes.TeamChange}

    def get(self, request: Request, team: str) -> Response:
        """Return one team."""
        return self.one(team_service.TEAM.one(teams().filter(name=team), team))

    def patch(self, request: Request, team: str) -> Change:
        """Update the description of a team."""
        return team_service.update_team(team, self.body()["description"], **self.versioned_arguments)

    def delete(self, request: Request, team: str) -> Change:
        """Delete a team that owns no subjects."""
        return team_service.delete_team(team, **self.versioned_arguments)


class MembersView(ApiView):
    """Members of a team."""

    rights = {"GET": Right.READ, "PUT": Right.CHANGE_ACCOUNTS}
    is_list = True
    proof_methods = frozenset({"PUT"})
    serializer_class = shapes.Member
    bodies = {"PUT": shapes.Members}
    filter_backends = [Ordering]
    ordering_fields = ("username", "role", "is_active")
    ordering = ("username",)

    @extend_schema(parameters=[SEARCH])
    def get(self, request: Request, team: str) -> Response:
        """List the members of a team."""
        team_service.TEAM.one(queries.teams().filter(name=team), team)
        return self.listed(searched(request, User.objects.filter(teams__name=team), "username"))

    @extend_schema(operation_id="teams_set_members")
    def put(self, request: Request, team: str) -> Change:
        """Set the members of a team."""
        return services.set_members(team, self.body()["members"], **self.versioned_arguments)
