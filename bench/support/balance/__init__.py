"""What the benchmark of balancing is made of: fleets, rivals, a judge and the exact optimum."""
