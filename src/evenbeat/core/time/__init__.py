"""When: schedules, zones, windows and lengths of time."""
