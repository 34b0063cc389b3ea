"""What a node does for the whole service: it keeps its lease, and tidies up."""
