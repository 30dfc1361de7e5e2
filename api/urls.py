"""URL patterns of /api/v1/."""

from django.urls import include, path

from api.account_urls import account_urls
from api.views import (
    broker_groups,
    dead_letters,
    delayed,
    groups,
    jobs,
    jump,
    messages,
    openapi,
    provisioning,
    subjects,
)

_subject = "subjects/<str:subject>/"
_group = "consumer-groups/<str:subject>/<str:group>/"
_broker_group = "broker-groups/<str:name>/"
_node = "nodes/<str:node_id>/"
_letters = "dead-letters/<str:subject>/<str:group>/"
_place = "<str:broker_group>/<int:sequence>/"

subject_urls = [
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
    path(f"{_broker_group}switch-over/", broker_groups.SwitchOverView.as_view(), name="broker-group-switch-over"),
    path(f"{_broker_group}promote/", broker_groups.PromoteView.as_view(), name="broker-group-promote"),
    path("nodes/", broker_groups.NodesView.as_view(), name="nodes"),
    path(_node, broker_groups.NodeView.as_view(), name="node"),
    path(f"{_node}accept-log-loss/", broker_groups.AcceptLogLossView.as_view(), name="node-accept-log-loss"),
    path(f"{_node}may-stop/", broker_groups.MayStopView.as_view(), name="node-may-stop"),
    path("jobs/", jobs.JobsView.as_view(), name="jobs"),
    path("jobs/<str:name>/", jobs.JobView.as_view(), name="job"),
    path("jobs/<str:name>/disable/", jobs.DisableJobView.as_view(), name="job-disable"),
    path("jobs/<str:name>/enable/", jobs.EnableJobView.as_view(), name="job-enable"),
    path("jobs/<str:name>/run/", jobs.RunJobView.as_view(), name="job-run"),
    path("jump/", jump.JumpView.as_view(), name="jump"),
    path("apply/", provisioning.ApplyView.as_view(), name="apply"),
]

message_urls = [
    path(f"{_subject}messages/", messages.MessagesView.as_view(), name="messages"),
    path(f"{_subject}messages/search/", messages.SearchView.as_view(), name="message-search"),
    path(f"{_subject}messages/{_place}", messages.MessageView.as_view(), name="message"),
    path(f"{_subject}messages/{_place}trace/", messages.TraceView.as_view(), name="message-trace"),
    path("dead-letters/", dead_letters.DeadLetterCountsView.as_view(), name="dead-letter-counts"),
    path(_letters, dead_letters.DeadLettersView.as_view(), name="dead-letters"),
    path(f"{_letters}causes/", dead_letters.DeadLetterCausesView.as_view(), name="dead-letter-causes"),
    path(f"{_letters}{_place}", dead_letters.DeadLetterView.as_view(), name="dead-letter"),
    path(f"{_letters}replay/", dead_letters.ReplayView.as_view(), name="dead-letter-replay"),
    path(f"{_letters}delete/", dead_letters.DeleteView.as_view(), name="dead-letter-delete"),
    path("delayed-messages/", delayed.DelayedMessagesView.as_view(), name="delayed-messages"),
    path("delayed-messages/calendar/", delayed.CalendarView.as_view(), name="delayed-calendar"),
    path("delayed-messages/bulk-cancel/", delayed.BulkCancelView.as_view(), name="delayed-bulk-cancel"),
    # Message IDs can be any text, also one that no path can carry ('..', 'a/b'): they are in the query or in the body.
    path("delayed-messages/message/", delayed.DelayedMessageView.as_view(), name="delayed-message"),
    path("delayed-messages/cancel/", delayed.CancelView.as_view(), name="delayed-cancel"),
    path("delayed-messages/reschedule/", delayed.RescheduleView.as_view(), name="delayed-reschedule"),
    path("delayed-messages/deliver/", delayed.DeliverView.as_view(), name="delayed-deliver"),
]

urlpatterns = [
    path("openapi.yaml", openapi.openapi, name="openapi"),
    path("", include(group_urls)),
    path("", include(cluster_urls)),
    path("", include(subject_urls)),
    path("", include("api.analytics_urls")),
    path("", include(account_urls)),
    path("", include(message_urls)),
    path("", include("api.alert_urls")),
]
