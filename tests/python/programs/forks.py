"""Uses a portal before a fork, in the child, and in the parent once the child has ended."""

import os
import sys

from evenbeat import Evenbeat, Portal

portal = Portal(Evenbeat())
portal.enqueue("echo", {"by": "before"})
child = os.fork()
if child == 0:
    portal.enqueue("echo", {"by": "child"})
    sys.exit(0)
_, status = os.waitpid(child, 0)
portal.enqueue("echo", {"by": "parent"})
sys.exit(os.waitstatus_to_exitcode(status))
