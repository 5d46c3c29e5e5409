"""The memory nodes of workflows."""
