"""Scalings: functions from a spectrum to a spectrum, one file each.

A scaling of RoPE runs a model beyond the length that it was trained on. Each is a frozen value that
can be compared, hashed, printed and written in a config. They differ in which bands they slow down,
and some raise the amplitude. `axes` has the functions that give the pairs of a spectrum to several
position axes.

A scaling of a `Spectrum` is exact: call it outside jit, or inside jit on a spectrum that is made
there from a Python number. A traced `Spectrum` has no frequencies to read, so that scaling it
raises TypeError. Scale a `LearnedSpectrum` there, whose angles are float32 products.
"""
