"""All SQL: named statements in sql/, the schema in schema/, one small module per noun."""
