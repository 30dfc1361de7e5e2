"""All that changes alerts: operators' decisions (rules, silences, channels, alerts) and the two jobs' work."""

from console.alerts.services.delivery import Delivered, deliver
from console.alerts.services.evaluation import Evaluated, evaluate, evaluate_urgent

__all__ = ["Delivered", "Evaluated", "deliver", "evaluate", "evaluate_urgent"]
