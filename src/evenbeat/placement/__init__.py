"""Placement decides at which phase a job beats, so that the load of the coming week is even."""
