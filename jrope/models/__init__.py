"""Models that take an encoding as a value. Only this package imports flax."""
