"""Forecasts with calibrated intervals, and anomalies: pure numpy, no Spark, no database, no clock.

`drain` (when the lag of a group is drained) and `disk` (when a disk is full) forecast a point; `conformal` turns the errors of
forecasts that came due into intervals that hold in 80 % of cases, and has the state that survives between runs. `anomalies` needs
no state.

The order within a run: for each hour, in ascending order, `conformal.learned` with the cases that came due up to the hour's end,
then the forecasts made at the hour's end. So the result does not depend on how many hours a run takes at once, and an hour that is
computed again from the same state gives the same forecasts.
"""
