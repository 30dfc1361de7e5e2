"""What is due when."""

from console.analytics.models.summary import LONG_STEPS, Summary, by_time, one_row, subject_field, whole_field


class DelayedLoad(Summary):
    """Calendar of delayed messages: what was pending at the last run, by the time it is due."""

    subject = subject_field()
    pending_messages = whole_field("messages due during the step")
    pending_bytes = whole_field("their size")

    key = ("subject",)
    steps = LONG_STEPS
    is_ahead = True

    class Meta:
        constraints = one_row("delayed", "subject")
        indexes = by_time("delayed")
