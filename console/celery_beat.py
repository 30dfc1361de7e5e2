"""The scheduler of Celery beat, which survives an outage of Redis with one line in its log."""

import logging
from typing import Any

from celery.beat import Scheduler, SchedulingError
from kombu.exceptions import OperationalError

logger = logging.getLogger("qmq.beat")


class QuietScheduler(Scheduler):
    """Sends the words to run jobs. A word that can't be sent is late, and the next one comes."""

    _is_redis_away = False

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        """Send the word for a job that is due; an outage of Redis is logged once, and its end."""
        try:
            self.apply_async(entry, producer=producer, advance=False)
        except SchedulingError as error:
            if not isinstance(error.__context__, OperationalError | OSError):
                logger.exception("job %s can't be scheduled", entry.name)
            elif not self._is_redis_away:
                self._is_redis_away = True
                logger.warning("Redis is away, no jobs are scheduled until it is back: %s", error.__context__)
            return
        if self._is_redis_away:
            self._is_redis_away = False
            logger.warning("Redis is back, jobs are scheduled again")
