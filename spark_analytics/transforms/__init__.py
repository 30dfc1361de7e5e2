"""Pure functions from DataFrames to DataFrames: what the analytics jobs compute, without where it comes from or goes to.

How they fit together:

    index ----> stored.stored_seconds ----+--> lag.lag --------------------------> lag
                                          +--> rates.subject_rates --------------> subject_rates
                                          +--> capacity.team_capacity -----------> team_capacity
                                          +--> state.stored_tail ----------------> the next window's input
    progress -> runs.runs ----------------+--> lag.lag
    (+ state)                             +--> rates.group_rates ----------------> group_rates
                                          +--> latency.latencies (with index) ---> latencies
                                          +--> skew.group_skew, consumer_shares
                                          +--> state.group_state ----------------> the next window's input
    retries, dead_letters --> failures.failures          delayed --> delayed_load.delayed_load
    rows of the above ------> forecasts.drain_forecasts, anomalies.anomalies        nodes --> forecasts.disk_forecasts

**Rows.** A transform that fills a summary table answers its columns behind `step_ms` and `at_ms` (`outputs`), for all `steps` it is
requested at once: the heavy part is done once. A window has to be whole steps. Nothing happened, no row: a row that is not there
means zero events in rates, latencies, skew and failures; lag has a row for each step in which the group existed.

**Watermark.** A transform takes what it is given for all there is. The caller asks for windows that end at or before the watermark:
the time up to which every node's index and progress are in the lake, less the allowance for late rows. A row that comes later still
belongs to the window of its own time: it changes nothing that was published until that window, and the states behind it, are
computed again.

**Windows in a row.** `group_state` and `stored_tail` at a window's end, with the next window's progress and index, give what one
window over both would: a run reads its window and nothing before it. A window computed again from the same inputs gives the same
rows.

**Time.** Integer milliseconds since the epoch (`_ms`) or seconds (`second`) inside, UTC throughout; the input tables'
timestamps are taken apart here. A second's state is what holds after all events before its end.
"""
