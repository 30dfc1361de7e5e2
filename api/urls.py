"""URL patterns of /api/v1/."""

from django.urls import path

from api.views import (
    alerts,
    analytics,
    audit,
    broker_groups,
    clients,
    dead_letters,
    delayed,
    events,
    found_messages,
    groups,
    history,
    jobs,
    jump,
    masking,
    me,
    messages,
    openapi,
    outbox,
    provisioning,
    rehearsals,
    saved_filters,
    subject_tree,
    subjects,
    summaries,
    tokens,
    users,
)

_subject = "subjects/<str:subject>/"
_group = "consumer-groups/<str:subject>/<str:group>/"
_broker_group = "broker-groups/<str:name>/"
_node = "nodes/<str:node_id>/"
_of_dead_letters = "dead-letters/<str:subject>/<str:group>/"
_place = "<str:broker_group>/<int:sequence>/"

subject_urls = [
    path("subject-tree/", subject_tree.SubjectTreeView.as_view(), name="subject-tree"),
    path("subjects/", subjects.SubjectsView.as_view(), name="subjects"),
    path(_subject, subjects.SubjectView.as_view(), name="subject"),
    path(f"{_subject}archive/", subjects.ArchiveView.as_view(), name="subject-archive"),
    path(f"{_subject}restore/", subjects.RestoreView.as_view(), name="subject-restore"),
    path(f"{_subject}placement/", subjects.PlacementView.as_view(), name="subject-placement"),
]

group_urls = [
    path("consumer-groups/", groups.GroupsView.as_view(), name="consumer-groups"),
    path(_group, groups.GroupView.as_view(), name="consumer-group"),
    path(f"{_group}pause/", groups.PauseView.as_view(), name="consumer-group-pause"),
    path(f"{_group}resume/", groups.ResumeView.as_view(), name="consumer-group-resume"),
    path(f"{_group}reset/", groups.ResetView.as_view(), name="consumer-group-reset"),
]
cluster_urls = [
    path("broker-groups/", broker_groups.BrokerGroupsView.as_view(), name="broker-groups"),
    path(_broker_group, broker_groups.BrokerGroupView.as_view(), name="broker-group"),
    path(f"{_broker_group}approve/", broker_groups.ApproveView.as_view(), name="broker-group-approve"),
    path(f"{_broker_group}read-only/", broker_groups.ReadOnlyView.as_view(), name="broker-group-read-only"),
    path(f"{_broker_group}drain/", broker_groups.DrainView.as_view(), name="broker-group-drain"),
    path(f"{_broker_group}writable/", broker_groups.WritableView.as_view(), name="broker-group-writable"),
    path(f"{_broker_group}copies/", broker_groups.CopiesView.as_view(), name="broker-group-copies"),
    path(
        f"{_broker_group}members/remove/", broker_groups.RemoveMemberView.as_view(), name="broker-group-members-remove"
    ),
    path(
        f"{_broker_group}members/replace/",
        broker_groups.ReplaceMemberView.as_view(),
        name="broker-group-members-replace",
    ),
    path(f"{_broker_group}switch-over/", broker_groups.SwitchOverView.as_view(), name="broker-group-switch-over"),
    path(f"{_broker_group}promote/", broker_groups.PromoteView.as_view(), name="broker-group-promote"),
    path(f"{_broker_group}remove-lost/", broker_groups.RemoveLostView.as_view(), name="broker-group-remove-lost"),
    path("rehearsals/", rehearsals.RehearsalsView.as_view(), name="rehearsals"),
    path("nodes/", broker_groups.NodesView.as_view(), name="nodes"),
    path(_node, broker_groups.NodeView.as_view(), name="node"),
    path(f"{_node}accept-log-loss/", broker_groups.AcceptLogLossView.as_view(), name="node-accept-log-loss"),
    path(f"{_node}may-stop/", broker_groups.MayStopView.as_view(), name="node-may-stop"),
    path("jobs/", jobs.JobsView.as_view(), name="jobs"),
    path("jobs/<str:name>/", jobs.JobView.as_view(), name="job"),
    path("jobs/<str:name>/disable/", jobs.DisableJobView.as_view(), name="job-disable"),
    path("jobs/<str:name>/enable/", jobs.EnableJobView.as_view(), name="job-enable"),
    path("jobs/<str:name>/run/", jobs.RunJobView.as_view(), name="job-run"),
    path("clients/", clients.ClientsView.as_view(), name="clients"),
    path("jump/", jump.JumpView.as_view(), name="jump"),
    path("apply/", provisioning.ApplyView.as_view(), name="apply"),
]

message_urls = [
    path(f"{_subject}messages/", messages.MessagesView.as_view(), name="messages"),
    path("messages/", found_messages.FoundMessagesView.as_view(), name="found-messages"),
    path(f"{_subject}messages/resend/", found_messages.ResendView.as_view(), name="messages-resend"),
    path(f"{_subject}masking-preview/", masking.MaskingPreviewView.as_view(), name="masking-preview"),
    path(f"{_subject}messages/search/", messages.SearchView.as_view(), name="message-search"),
    path(f"{_subject}saved-filters/", saved_filters.SavedFiltersView.as_view(), name="saved-filters"),
    path(f"{_subject}saved-filters/<int:filter_id>/", saved_filters.SavedFilterView.as_view(), name="saved-filter"),
    path(f"{_subject}messages/{_place}", messages.MessageView.as_view(), name="message"),
    path(f"{_subject}messages/{_place}trace/", messages.TraceView.as_view(), name="message-trace"),
    path("dead-letters/", dead_letters.DeadLetterCountsView.as_view(), name="dead-letter-counts"),
    path("dead-letters/causes/", dead_letters.AllCausesView.as_view(), name="dead-letters-causes"),
    path(_of_dead_letters, dead_letters.DeadLettersView.as_view(), name="dead-letters"),
    path(f"{_of_dead_letters}causes/", dead_letters.DeadLetterCausesView.as_view(), name="dead-letter-causes"),
    path(f"{_of_dead_letters}{_place}", dead_letters.DeadLetterView.as_view(), name="dead-letter"),
    path(f"{_of_dead_letters}replay/", dead_letters.ReplayView.as_view(), name="dead-letter-replay"),
    path(f"{_of_dead_letters}delete/", dead_letters.DeleteView.as_view(), name="dead-letter-delete"),
    path("delayed-messages/", delayed.DelayedMessagesView.as_view(), name="delayed-messages"),
    path("delayed-messages/calendar/", delayed.CalendarView.as_view(), name="delayed-calendar"),
    path("delayed-messages/bulk-cancel/", delayed.BulkCancelView.as_view(), name="delayed-bulk-cancel"),
    # Message IDs can be any text, also one that no path can carry ('..', 'a/b'): they are in the query or in the body.
    path("delayed-messages/message/", delayed.DelayedMessageView.as_view(), name="delayed-message"),
    path("delayed-messages/cancel/", delayed.CancelView.as_view(), name="delayed-cancel"),
    path("delayed-messages/reschedule/", delayed.RescheduleView.as_view(), name="delayed-reschedule"),
    path("delayed-messages/deliver/", delayed.DeliverView.as_view(), name="delayed-deliver"),
]

analytics_urls = [
    path("overview/", analytics.OverviewView.as_view(), name="overview"),
    path("flow/", clients.FlowView.as_view(), name="flow"),
    path("lag/", analytics.LagView.as_view(), name="lag"),
    path("events/", events.EventsView.as_view(), name="events"),
    path("history/", history.HistoryView.as_view(), name="history"),
    path("analytics/runs/", analytics.RunsView.as_view(), name="analytics-runs"),
    path("analytics/runs/<int:run_id>/", analytics.RunView.as_view(), name="analytics-run"),
    path("analytics/demo/", analytics.DemoView.as_view(), name="analytics-demo"),
    path("analytics/demo/replace/", analytics.ReplaceDemoView.as_view(), name="analytics-demo-replace"),
    path("analytics/tables/", summaries.TablesView.as_view(), name="analytics-tables"),
    path("analytics/tables/<str:table>/", summaries.TableView.as_view(), name="analytics-table"),
    path("analytics/tables/<str:table>/ranking/", summaries.RankingView.as_view(), name="analytics-ranking"),
]

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

alert_urls = [
    path("alert-rules/", alerts.AlertRulesView.as_view(), name="alert-rules"),
    path("alert-rules/preview/", alerts.AlertRulePreviewView.as_view(), name="alert-rule-preview"),
    path("alert-rules/<str:rule>/", alerts.AlertRuleView.as_view(), name="alert-rule"),
    path("alerts/", alerts.AlertsView.as_view(), name="alerts"),
    path("alerts/<str:alert>/", alerts.AlertView.as_view(), name="alert"),
    path("alerts/<str:alert>/acknowledge/", alerts.AcknowledgeView.as_view(), name="alert-acknowledge"),
    path("silences/", alerts.SilencesView.as_view(), name="silences"),
    path("silences/<str:silence>/", alerts.SilenceView.as_view(), name="silence"),
    path("alert-channels/", alerts.AlertChannelsView.as_view(), name="alert-channels"),
    path("alert-channels/<str:channel>/", alerts.AlertChannelView.as_view(), name="alert-channel"),
    path("alert-channels/<str:channel>/test/", alerts.TestChannelView.as_view(), name="alert-channel-test"),
]

_outbox_database = "outbox/databases/<str:database>/"
outbox_urls = [
    path("outbox/databases/", outbox.OutboxDatabasesView.as_view(), name="outbox-databases"),
    path(_outbox_database, outbox.OutboxDatabaseView.as_view(), name="outbox-database"),
    path(f"{_outbox_database}test/", outbox.TestOutboxDatabaseView.as_view(), name="outbox-database-test"),
    path(f"{_outbox_database}rows/", outbox.OutboxRowsView.as_view(), name="outbox-rows"),
    path(f"{_outbox_database}rows/<int:row_id>/", outbox.OutboxRowView.as_view(), name="outbox-row"),
    path(f"{_outbox_database}resend/", outbox.ResendView.as_view(), name="outbox-rows-resend"),
    path(f"{_outbox_database}discard/", outbox.DiscardView.as_view(), name="outbox-rows-discard"),
]

urlpatterns = [
    path("openapi.yaml", openapi.openapi, name="openapi"),
    *group_urls,
    *cluster_urls,
    *subject_urls,
    *analytics_urls,
    *account_urls,
    *message_urls,
    *alert_urls,
    *outbox_urls,
]
