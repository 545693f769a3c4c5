"""RoPE in an Equinox attention layer.

The spectrum is data, so one compiled program serves every base and scaling. The output depends on
distances only: it stays the same when all positions shift, also by a million.

    python examples/rope_in_equinox.py
"""

import equinox as eqx
import jax
import jax.numpy as jnp

import jrope

HEADS, HEAD_DIM, LENGTH = 4, 16, 32


class Attention(eqx.Module):
    """Causal attention whose queries and keys are rotated."""

    heads: eqx.nn.MultiheadAttention

    def __init__(self, key):
        self.heads = eqx.nn.MultiheadAttention(HEADS, HEADS * HEAD_DIM, key=key)

    def __call__(self, x, positions, spectrum):  # x [T, D], positions [T]
        def rotate(q, k, v):  # [T, N, H]
            q, k = (jrope.rotate(each, positions, spectrum) for each in (q, k))
            return q, k, v

        mask = jnp.tri(len(x), dtype=bool)
        return self.heads(x, x, x, mask=mask, process_heads=rotate)


def main():
    layer = Attention(jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (LENGTH, HEADS * HEAD_DIM))
    positions = jnp.arange(LENGTH)
    spectrum = jrope.spectrum(HEAD_DIM, base=10_000.0)

    traces = 0

    @eqx.filter_jit
    def run(layer, x, positions, spectrum):
        nonlocal traces
        traces += 1
        return layer(x, positions, spectrum)

    plain = run(layer, x, positions, spectrum)
    shifted = run(layer, x, positions + 1_000_000, spectrum)
    print(f"change when positions shift by a million: {jnp.abs(shifted - plain).max():.0e}")
    for scaling in (jrope.Linear(4.0), jrope.NTK(4.0), jrope.Yarn(4.0, original_length=LENGTH)):
        scaled = run(layer, x, positions, scaling(spectrum))
        print(f"change under {scaling.name}: {jnp.abs(scaled - plain).max():.2f}")
    print(f"compiled programs: {traces}")


if __name__ == "__main__":
    main()
