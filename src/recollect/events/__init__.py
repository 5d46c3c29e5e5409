"""What happened, told to whoever may hear it."""
