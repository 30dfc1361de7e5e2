"""All that changes alerts: operators' decisions (rules, silences, channels, alerts) and the two jobs' work."""

from console.alerts.services.delivery import Delivered, deliver
from console.alerts.services.evaluation import Evaluated, evaluate
from console.alerts.services.retention import forget_old

__all__ = ["Delivered", "Evaluated", "deliver", "evaluate", "forget_old"]
