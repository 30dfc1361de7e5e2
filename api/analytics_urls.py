"""URL patterns of analytics, live lag, recent history and the overview."""

from django.urls import path

from api.views import analytics, analytics_demo, history, summaries

urlpatterns = [
    path("overview/", analytics.OverviewView.as_view(), name="overview"),
    path("lag/", analytics.LagView.as_view(), name="lag"),
    path("history/", history.HistoryView.as_view(), name="history"),
    path("analytics/runs/", analytics.RunsView.as_view(), name="analytics-runs"),
    path("analytics/runs/<int:run_id>/", analytics.RunView.as_view(), name="analytics-run"),
    path("analytics/demo/", analytics_demo.DemoView.as_view(), name="analytics-demo"),
    path("analytics/demo/replace/", analytics_demo.ReplaceDemoView.as_view(), name="analytics-demo-replace"),
    path("analytics/tables/", summaries.TablesView.as_view(), name="analytics-tables"),
    path("analytics/tables/<str:table>/", summaries.TableView.as_view(), name="analytics-table"),
]
