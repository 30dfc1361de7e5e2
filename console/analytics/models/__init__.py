"""Runs of analytics jobs and the summaries they leave behind for the console; a noun a file."""

from console.analytics.models.anomalies import Anomaly, Metric
from console.analytics.models.capacity import TeamCapacity
from console.analytics.models.delayed import DelayedLoad
from console.analytics.models.failures import Failure, FailureKind
from console.analytics.models.forecasts import DiskForecast, DrainForecast, Outlook
from console.analytics.models.lag import Lag
from console.analytics.models.latencies import Latency, LatencyKind
from console.analytics.models.rates import GroupRates, SubjectRates
from console.analytics.models.runs import DEMO_DATA, DEMO_JOB, AnalyticsRun, RunState, TableState
from console.analytics.models.scores import ForecastScore, Scored
from console.analytics.models.skew import ConsumerShare, GroupSkew
from console.analytics.models.summary import Summary

__all__ = [
    "DEMO_DATA",
    "DEMO_JOB",
    "AnalyticsRun",
    "Anomaly",
    "ConsumerShare",
    "DelayedLoad",
    "DiskForecast",
    "DrainForecast",
    "Failure",
    "FailureKind",
    "ForecastScore",
    "GroupRates",
    "GroupSkew",
    "Lag",
    "Latency",
    "LatencyKind",
    "Metric",
    "Outlook",
    "RunState",
    "Scored",
    "SubjectRates",
    "Summary",
    "TableState",
    "TeamCapacity",
]
