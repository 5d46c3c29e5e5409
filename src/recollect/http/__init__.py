"""What everything spoken over HTTP shares: the edge, callers, sessions, problems, pages of lists."""
