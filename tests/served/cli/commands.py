"""Commands that ask a metaserver."""

ASKING = [
    ["status"],
    ["subjects"],
    ["lag", "orders"],
    ["delayed", "list", "orders"],
    ["delayed", "show", "m"],
    ["delayed", "cancel", "m"],
    ["delayed", "reschedule", "m", "--delay", "1h"],
    ["delayed", "deliver", "m"],
    ["delayed", "calendar"],
]
