"""Doors for other systems' ways of asking. Each only forwards: the work itself is a job in Postgres."""
