"""Time limits of everything that is requested of nodes: the one table of them. An inner limit is lower than the outer one.

Read as `limits.NAME`, so that a test can change one of them.
"""

from qmq.net.timing import Timeouts

# --- requests of the API ------------------------------------------------------------------------------------------------

REQUEST_SECONDS = 20.0
"""Time limit for all node requests of one API request: less than the time limits of browsers and proxies."""
NODE_SECONDS = 5.0
"""One question to one node: an unresponsive one leaves a hole in the answer, and the rest of the request has time left."""
OFFLINE_NODE_SECONDS = 1.0
"""The same for a node whose lease has expired: most likely it does not respond, and a user waits for the other nodes' answers."""
SWITCH_OVER_SECONDS = 12.0
"""A switch-over: the master answers within 10 s."""
SEARCH_SECONDS = 8.0
"""All questions to one node when later or earlier attempts of a message are searched: a node answers them one by one."""
CAUSES_SECONDS = 6.0
"""Counting causes of dead letters on one node: after so long no further page is read."""
JUMP_SECONDS = 2.0
"""Finding a delayed message by its id for Ctrl-K: the user is typing."""
SEND_TIMEOUTS = Timeouts(connect=3.0, send=5.0, delivery=10.0, route=5.0)
"""Shorter than a client's own: a user waits for the answer."""
BULK_SECONDS = 60.0
"""A bulk cancel goes through a whole range; what it cancelled before stays cancelled."""
BATCHES_SECONDS = 20.0
"""After this long no new batch of dead letters is begun; the answer says where to continue. A batch takes REQUEST_SECONDS twice
at most."""
CLAIM_SECONDS = 4 * REQUEST_SECONDS
"""A dead letter claimed for a replay this long ago is free again: the request that claimed it has ended."""

# --- live numbers -------------------------------------------------------------------------------------------------------

STATS_PAGE_SECONDS = 0.75
"""One page of a node's numbers: a node that hangs must not cost the others their beat of one second."""
STATS_SLICE_SECONDS = 0.75
"""After so long no further page of a node is requested in the same beat."""
STATS_NODE_SECONDS = 2.5
"""All pages of a node in one beat: the last one may begin at the end of the turn."""
READING_SECONDS_MAX = 30.0
"""The numbers of subjects on a page that was read earlier than this are unknown."""
TAIL_SECONDS = 1.0
"""One look of a live tail at one node: the next one is due every half a second."""
