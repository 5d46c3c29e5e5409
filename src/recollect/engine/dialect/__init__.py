"""What clients of mem0 ask for beyond what the engine does: to be answered early, exports, projects."""
