"""What runs must survive, tried by the tests in a quick form and by `python -m experiments.soak` for as long as one likes."""

CONFIG = """
title = "soak"
seeds = [0, 5]
[task]
type = "copy"
symbols = 24
length = 3
[model]
features = 16
[train]
steps = 1000
batch = 4
learning_rate = 1e-2
report_every = 20
[evaluate]
multiples = [1, 2]
sequences = 64
[encodings.learned]
type = "learned"
[encodings.rope]
type = "rope"
[encodings.pi]
extends = "rope"
scaling = { type = "linear", factor = "match" }
"""
