"""Throughput of our client beside other brokers' Python clients, each against its own server on this machine."""
