"""What each team's subjects take."""

from typing import ClassVar

from django.db import models

from console.analytics.models.summary import LONG_STEPS, Summary, by_time, number_field, one_row, whole_field

TEAM_CHARS_MAX = 60


class TeamCapacity(Summary):
    """Messages and bytes of a team's subjects, by who owns them when the run is made."""

    team = models.CharField(max_length=TEAM_CHARS_MAX)
    subjects_count = whole_field()
    sent_messages = whole_field()
    sent_bytes = whole_field()
    sent_messages_per_second_max = number_field()
    sent_messages_per_second_mean = number_field()
    sent_bytes_per_second_max = number_field()
    sent_bytes_per_second_mean = number_field()
    stored_messages_last = whole_field()
    stored_bytes_last = whole_field()

    key = ("team",)
    steps = LONG_STEPS
    meanings: ClassVar[dict[str, str]] = {
        "team": "the team; empty for subjects without an owner",
        "subjects_count": "number of subjects",
        "sent_messages": "messages stored during the step",
        "sent_bytes": "size of these messages in the message log",
        "sent_messages_per_second_max": "maximum over the minutes of the step",
        "sent_messages_per_second_mean": "mean over the measured time of the step",
        "sent_bytes_per_second_max": "maximum over the minutes of the step",
        "sent_bytes_per_second_mean": "mean over the measured time of the step",
        "stored_messages_last": "stored messages at the end of the step",
        "stored_bytes_last": "size of these messages, counting every copy",
    }

    class Meta:
        constraints = one_row("capacity", "team")
        indexes = by_time("capacity")
