"""How fast jrope is, as ratios: each measured against a peer or a limit in one run on one machine."""
