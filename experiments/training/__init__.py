"""Training and evaluation of a model on a task, as pure functions."""
