"""A run as a report that fits a bug tracker: Markdown, and the recording as one file, without secrets."""
