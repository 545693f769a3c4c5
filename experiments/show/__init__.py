"""What `list` and `show` print."""
