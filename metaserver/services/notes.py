"""Notes of changes: what happens next, and what a change does not do. Pure.

As reasons are (`qmq.protocol.reasons`), a note is a code with values; the console has the same codes in `notes.json` of each
language. Sentences with a number read well with each number, since they are not inflected.
"""

from collections.abc import Sequence

from qmq.protocol.reasons import Reason, Sentence

NAMES_MAX = 3
"""Names that a note lists."""


class NoteCode(Sentence):
    """What a note says. No code of it is a `Code`, because the console looks for a sentence in both."""

    START_A_NODE = (
        "start_a_node",
        "Start a node with --broker-group {group} --meta ...; the group is offline until it registers.",
    )
    SERVES_NEXT = "serves_next", "Node {node} at {address} serves with its next heartbeat."
    SUBJECTS_MOVE = (
        "subjects_move",
        "Subjects that will move to other groups: {subjects}. Messages stored here can be read until they are consumed.",
    )
    SUBJECTS_STAY = "subjects_stay", "Subjects that have not left yet stay: {subjects}."
    NAMES_AND_MORE = "names_and_more", "{names} and {more} more"
    BYTES_LOST_UNLESS = (
        "bytes_lost_unless",
        "Up to {count} bytes are lost, unless a node returns with its data folder and the group is approved.",
    )
    MESSAGES_LOST_UNLESS = (
        "messages_lost_unless",
        "Pending messages lost: up to {count}, unless a node returns with its data folder and the group is approved.",
    )
    SUBJECTS_LEAVE = "subjects_leave", "Subjects that leave the group at once: {subjects}."
    NO_OTHER_SERVES = (
        "no_other_serves",
        "No other group serves {subjects}: they leave {group} when another group has joined.",
    )

    MASTER_FIRST = "master_first", "Node {node} leads the group before {removed} is removed."
    BECOMES_MASTER = (
        "becomes_master",
        "Node {node} becomes the master instead of node {master}, unless another slave has more by then.",
    )
    REQUESTS_HELD = "requests_held", "Requests of clients were held for {seconds} s."
    NODES_TO_START = (
        "nodes_to_start",
        "{missing} more to start with an empty data folder: --broker-group {group}. It becomes a member by itself.",
    )
    BYTES_LOST = "bytes_lost", "Up to {count} bytes of acknowledged messages are lost."
    NONE_HAS_MORE = "none_has_more", "No member is known to have more messages."
    DAMAGE_WITHHELD = "damage_withheld", "{count} bytes of the log of node {node} are damaged, and withheld."
    OTHERS_AHEAD = (
        "others_ahead",
        "{nodes}: has messages that node {node} lacks. If it does not follow, empty its data folder, and it becomes a slave again.",
    )
    NOT_INCLUDED = (
        "not_included",
        "Not included: what a master acknowledged after its last stored heartbeat, some 3 s, or acknowledges if it runs.",
    )
    BECOMES_SPARE = (
        "becomes_spare",
        "Node {node} is a spare until its data folder is emptied. Stop it if it is not needed.",
    )
    COPIES_LEFT = (
        "copies_left",
        "The group has {members} of {copies} copies: the next node that starts with an empty folder becomes a member.",
    )
    MEMBER_REPLACED = (
        "member_replaced",
        "Node {replacement} becomes a member, and node {node} leaves when that is safe.",
    )
    START_REPLACEMENT = (
        "start_replacement",
        "Start node {node} with an empty data folder: --broker-group {group} --node-id {node}",
    )
    MASTER_REPLACED = "master_replaced", "Node {node} is the master: it switches over first. No request fails."

    SENDS_REJECTED = "sends_rejected", "Sends are rejected from now on. Stored messages can still be read."
    COPIES_OF_DEAD_LETTERS = (
        "copies_of_dead_letters",
        "Each copy has its own message ID; property qmq_console_replay_of contains that of the dead letter.",
    )
    DEAD_LETTERS_HIDDEN = (
        "dead_letters_hidden",
        "Deleted dead letters are hidden. Retention deletes their data later.",
    )
    ROWS_SENT_AGAIN = (
        "rows_sent_again",
        "The next pass of the relay sends them. Messages that a broker has already stored are sent again with the same ID.",
    )
    ROWS_DISCARDED = "rows_discarded", "Discarded rows are deleted, and their messages are never sent."
    ROWS_STAY = "rows_stay", "Rows in the database stay there; another relay, or a program, can send them."
    DATABASE_DISABLED = "database_disabled", "The database is disabled: it is not tested and not relayed."

    ALERTS_RESOLVED = "alerts_resolved", "Open alerts that will be resolved: {count}."
    SILENCES_UNOWNED = "silences_unowned", "Applies to alerts of subjects without an owner."
    SILENCES_TEAM = "silences_team", "Applies to alerts of team {team} and of subjects without an owner."
    ORIGIN_DIFFERS = (
        "origin_differs",
        "The URL has a different origin, so the secret and headers are removed unless entered again.",
    )
    SHUT_OUT = "shut_out", "Sessions ended: {sessions}. Tokens revoked: {tokens}."
    PASSWORD_REPLACED = "password_replaced", "The old password no longer works."
    ANALYTICS_DISABLED = (
        "analytics_disabled",
        "The next run replaces the demo data. It was not started now, because background job analytics is disabled. Enable it.",
    )
    ANALYTICS_RUNNING = (
        "analytics_running",
        "The next run replaces the demo data. It was not started now, because a run is in progress.",
    )


def listed(names: Sequence[str]) -> str:
    """Return the first NAMES_MAX names for a note, and how many there are more."""
    shown, more = ", ".join(names[:NAMES_MAX]), len(names) - NAMES_MAX
    return Reason.of(NoteCode.NAMES_AND_MORE, names=shown, more=more) if more > 0 else shown
