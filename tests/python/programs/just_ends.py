"""Adds a job through a portal and ends without closing it."""

import atexit
import sys

from evenbeat import Evenbeat, Portal

eb = Evenbeat()
portal = Portal(eb, migrated="migrated" in sys.argv)
# atexit calls the handlers in reverse order: this one comes last.
atexit.register(lambda: print("closed" if not eb.is_open else "still open", flush=True))
portal.enqueue("echo", {"by": "main"})
