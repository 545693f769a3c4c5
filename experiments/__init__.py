"""Length-extrapolation experiments: `python -m experiments --help`."""
