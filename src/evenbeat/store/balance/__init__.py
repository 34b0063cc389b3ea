"""The rows of balancing: the map of the load, rebalance plans, scores."""
