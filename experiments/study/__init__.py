"""Runs a study: its jobs as plain data, the run's directory, checkpoints, progress and trackers."""
