"""The profile: a user's evolving state as patches, with time travel."""
