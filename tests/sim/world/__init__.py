"""The simulator: a loop in virtual time, its network, disks and database, and hosts on it."""
