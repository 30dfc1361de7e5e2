"""Runs of analytics jobs, and the summary tables they fill."""

from django.apps import AppConfig


class AnalyticsConfig(AppConfig):
    """Analytics as the console sees them: rows, never Spark."""

    name = "console.analytics"
    label = "analytics"
    default_auto_field = "django.db.models.BigAutoField"
