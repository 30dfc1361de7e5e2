"""What consumers do: pulls, acks, retries, leases."""
