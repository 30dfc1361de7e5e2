"""Runs of analytics jobs and the summaries they leave behind for the console."""

from console.analytics.models.runs import DEMO_DATA, DEMO_JOB, AnalyticsRun, LeftOut, RunState, TableState
from console.analytics.models.summaries import (
    BROKER_GROUP_COLUMNS,
    Anomaly,
    BrokerGroupNumbers,
    CaseClass,
    DiskForecast,
    DrainForecast,
    ForecastScore,
    Lag,
    Latency,
    Outlook,
    Scored,
)
from console.analytics.models.summary import Summary

__all__ = [
    "BROKER_GROUP_COLUMNS", "DEMO_DATA", "DEMO_JOB", "AnalyticsRun", "Anomaly", "BrokerGroupNumbers", "CaseClass", "DiskForecast",
    "DrainForecast", "ForecastScore", "Lag", "Latency", "LeftOut", "Outlook", "RunState", "Scored", "Summary", "TableState",
]  # fmt: skip
