"""The table of results; figures, report, sentences and claims that are made from it."""
