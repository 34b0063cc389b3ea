"""PostgreSQL run by Evenbeat itself, for those who have no server of their own."""

from evenbeat.postgres.binaries import find_program
from evenbeat.postgres.server import EmbeddedServer

__all__ = ["EmbeddedServer", "find_program"]
