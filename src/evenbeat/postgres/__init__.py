"""The embedded server: a PostgreSQL that Evenbeat starts and stops itself."""

from evenbeat.postgres.binaries import find_program
from evenbeat.postgres.server import EmbeddedServer

__all__ = ["EmbeddedServer", "find_program"]
