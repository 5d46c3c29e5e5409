"""Rules: what a team corrects and repeats in its chats becomes proposed rules."""
