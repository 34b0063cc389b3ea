"""Values for operators: statistics, the audit, roles, and explanations."""
