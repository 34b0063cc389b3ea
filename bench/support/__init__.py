"""What benchmarks share: a durable server of their own, workers, peers, and one way to report."""
