"""Messages to users: by e-mail as a digest, and in the dashboard."""
