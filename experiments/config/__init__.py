"""From a config file to an `Experiment`, or to one clear message for every mistake."""
