"""Repair: a member replaces what is damaged on its disk by what another member has.

`ranges` says what a damaged range is, and what each kind of file does with one. `repairs` requests the ranges from other members,
`serving` answers such requests, and `log_ranges` checks and writes those of the log.
"""
