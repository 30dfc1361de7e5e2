"""What each team's subjects take."""

from console.analytics.models.summary import (
    LONG_STEPS,
    Summary,
    by_time,
    number_field,
    one_row,
    text_field,
    whole_field,
)

TEAM_CHARS_MAX = 60


class TeamCapacity(Summary):
    """Messages and bytes of a team's subjects, by who owns them when the run is made."""

    team = text_field(TEAM_CHARS_MAX, "the team; empty for subjects without an owner")
    subjects_count = whole_field("number of subjects")
    sent_messages = whole_field("messages stored during the step")
    sent_bytes = whole_field("size of these messages in the message log")
    sent_messages_per_second_max = number_field("maximum over the minutes of the step")
    sent_messages_per_second_mean = number_field("mean over the measured time of the step")
    sent_bytes_per_second_max = number_field("maximum over the minutes of the step")
    sent_bytes_per_second_mean = number_field("mean over the measured time of the step")
    stored_messages_last = whole_field("stored messages at the end of the step")
    stored_bytes_last = whole_field("size of these messages, counting every copy")

    key = ("team",)
    steps = LONG_STEPS

    class Meta:
        constraints = one_row("capacity", "team")
        indexes = by_time("capacity")
