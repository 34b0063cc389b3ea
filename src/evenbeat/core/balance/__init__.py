"""The heart of balancing: where a job's beats go, so that the load of the coming week is even.

Pure: no database, no clock. The modules beside `model` use numpy, so only processes that place or
report the load import them.
"""
