"""The test kit: handlers called without a database, and jobs run on a clock that the test moves.

Nothing is imported here: pytest loads `plugin` in every project that has Evenbeat installed.
"""
