"""The rules faculty: what a team says in its chats, and the rules that follow from it."""
