"""URL patterns of users, teams, tokens, the caller's account and the audit log."""

from django.urls import path

from api.views import audit, me, tokens, users

account_urls = [
    path("users/", users.UsersView.as_view(), name="users"),
    path("users/<int:user_id>/", users.UserView.as_view(), name="user"),
    path("users/<int:user_id>/end-sessions/", users.EndSessionsView.as_view(), name="user-end-sessions"),
    path("users/<int:user_id>/unlock/", users.UnlockView.as_view(), name="user-unlock"),
    path("teams/", users.TeamsView.as_view(), name="teams"),
    path("teams/<str:team>/", users.TeamView.as_view(), name="team"),
    path("teams/<str:team>/members/", users.MembersView.as_view(), name="team-members"),
    path("tokens/", tokens.TokensView.as_view(), name="tokens"),
    path("tokens/<int:token_id>/", tokens.TokenView.as_view(), name="token"),
    path("me/", me.MeView.as_view(), name="me"),
    path("me/sessions/", me.MySessionsView.as_view(), name="my-sessions"),
    path("me/sessions/<int:session_id>/", me.MySessionView.as_view(), name="my-session"),
    path("roles/", me.RolesView.as_view(), name="roles"),
    path("audit/", audit.AuditView.as_view(), name="audit"),
    path("audit/verify/", audit.VerifyView.as_view(), name="audit-verify"),
]
