"""Reading chat histories: every format of transcript becomes the same chats and turns."""
