"""How fast jrope is, as ratios: each against another package or a limit, on one machine."""
