"""One file a format, with what was true when it was the newest: nothing in it may change."""
