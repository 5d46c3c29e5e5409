"""Learning rules from chats: pure functions, without a model, a database or a network."""
