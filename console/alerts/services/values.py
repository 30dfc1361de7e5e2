"""Fields that rules and silences share."""

from console.alerts.rules import GLOB_CHARS_MAX
from metaserver.services.fields import Number, Text, Whole

SECONDS_MAX = 7 * 86_400
GLOB = Text(chars_min=1, chars_max=GLOB_CHARS_MAX, is_line=True)
SECONDS = Whole(minimum=0, maximum=SECONDS_MAX, unit="seconds")
THRESHOLD = Number(minimum=0, maximum=1e18)
