"""Examples for the OpenAPI document: each is a request that works as it is."""

from typing import Any

JOBS: list[Any] = [
    {"kind": "echo", "payload": {"hello": "world"}},
    {"name": "nightly", "kind": "echo", "schedule": "daily 02:30 Europe/Berlin"},
    {
        "source_id": "news-site",
        "source_name": "example.com",
        "url": "https://example.com",
        "interval_minutes": 30,
        "interval_type": "minutes",
        "schedule_enabled": True,
        "max_retries": 3,
        "retry_backoff_seconds": 60,
        "metadata": {"category": "news"},
    },
]
