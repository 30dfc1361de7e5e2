"""URL patterns of alerts."""

from django.urls import path

from api.views import alerts

urlpatterns = [
    path("alert-rules/", alerts.AlertRulesView.as_view(), name="alert-rules"),
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
