"""The rows of jobs, and the statements that write and read them."""
