"""Every limit of what people may write, in one list.

Python's checks, the wire models of the API and the options of the command line take their numbers
from here. SQL cannot import them: tests/store/schema/test_limits.py holds the CHECK constraints and
`evenbeat.fault_of_job` equal to this list. What Python accepts, the API accepts back.
"""

from datetime import timedelta

# Texts, in characters. A word is a kind, the name of a label, or a label that a node carries.
LONGEST_JOB_NAME = 200
LONGEST_DEDUPE_KEY = 200
LONGEST_GROUP_KEY = 200
LONGEST_WORD = 100
LONGEST_LABEL_VALUE = 200
LONGEST_ERROR_NAME = 200
LONGEST_TEMPLATE_NAME = 100
LONGEST_DESCRIPTION = 1_000
LONGEST_TOKEN_NAME = 200
LONGEST_ACTOR = 200
LONGEST_NOTE = 2_000
LONGEST_OWNER = 200
LONGEST_REASON = 500
LONGEST_SIGNATURE = 200
LONGEST_IDEMPOTENCY_KEY = 255
# More of an error than this is cut off.
LONGEST_ERROR = 10_000
LONGEST_RATE = 50
# What a filter or a query looks for: a name, a key, a kind.
LONGEST_SEARCH = 200

# How a job is tried, and how it shares.
MOST_ATTEMPTS = 1_000
MOST_RETRY_RULES = 100
MOST_FAILURES_BEFORE_PAUSE = 1_000_000
HIGHEST_PRIORITY = 100
MOST_RUNNING = 100_000
# A smallint of the table `pulse`.
LARGEST_JOB_LIMIT = 32_767
MAX_RUNS = 1_000_000_000
# Beats that are listed, or caught up with, at once.
MAX_BEATS = 10_000

# How many of a thing one job or one template may have.
MOST_LABELS = 50
MOST_NODE_LABELS = 50
MOST_PARAMETERS = 50

# Times. Nothing that Evenbeat waits for is longer than ten years.
LONGEST_DURATION = timedelta(days=3650)
SHORTEST_TIMEOUT = timedelta(milliseconds=1)
LONGEST_TIMEOUT = timedelta(days=30)
# No wait before another try is longer. It also stands for "no cap".
LONGEST_BACKOFF = timedelta(days=10)

# Sizes, in bytes of JSON, and how deeply JSON may be nested.
LARGEST_PAYLOAD = 1_000_000
LARGEST_REQUEST_BODY = 1_000_000
# History is read by the page: what is larger belongs elsewhere, and its address into the result.
LARGEST_RESULT = 1_000_000
# Counts of items are stored as integers of PostgreSQL.
MOST_ITEMS = 2**31 - 1
DEEPEST_JSON = 64

# How many at once. One transaction holds all jobs or letters of an action: more than 10,000 would
# keep the ends of their runs waiting for seconds.
MOST_ADDED_AT_ONCE = 100_000
MOST_ACTED_ON_AT_ONCE = 10_000
MOST_FILTER_VALUES = 100
MOST_DAYS_SHOWN = 400
# A page of the API; a listing of the command line.
LARGEST_PAGE = 250
LARGEST_OFFSET = 1_000_000
LARGEST_LISTING = 1_000
# Beats that the API previews of a schedule.
MOST_PREVIEWED_BEATS = 100
# What a rebalance may move, and what a forecast may be asked about.
MOST_MOVES = 1_000_000
MOST_WORKERS = 1_000_000
MOST_HYPOTHETICAL_JOBS = 10_000
MOST_HYPOTHETICAL_SCHEDULES = 100

# What the clients of two systems know as limits of their own words (docs/contracts.md). They hold
# only for a client that writes these words: `max_retries` and `retry_backoff_seconds` of interval
# jobs, `maxAttempts` and `payload` of /tasks.
MOST_INTERVAL_JOB_RETRIES = 99
LONGEST_INTERVAL_JOB_BACKOFF = timedelta(days=1)
LONGEST_INTERVAL_JOB_TEXT = 2_000
LONGEST_INTERVAL_JOB_CRON = 256
MOST_TASK_ATTEMPTS = 5
LONGEST_TASK_PAYLOAD = 5_000
LARGEST_TASK_PAGE = 100
