"""The rows for operators: nodes, retention, statistics, the audit, backups, checks."""
