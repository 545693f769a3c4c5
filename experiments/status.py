"""The exit statuses of the command line, other than 0, and 1 for an error of the program."""

BAD_INPUT = 2  # in a config, an override, a directory or a file in it
DIVERGED = 3  # done, but a model's loss is not a number any more
DISK = 4  # full, read-only or gone
MEMORY = 5  # more was needed than there is
DIFFERENT = 6  # a reproduction does not match the stored results
INTERRUPTED = 130
