"""Chat histories: kept for those who said them, with secrets masked, until rules are learnt from them."""
