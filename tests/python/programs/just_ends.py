"""Adds a job through a portal and ends, without a word about closing."""

import atexit
import sys

from evenbeat import Evenbeat, Portal

eb = Evenbeat()
portal = Portal(eb, migrated="migrated" in sys.argv)
# Called after whatever was registered later.
atexit.register(lambda: print("closed" if not eb.is_open else "still open", flush=True))
portal.enqueue("echo", {"by": "main"})
