"""The balancer's map over the store: one lock, deltas, and the ring that every process keeps."""
