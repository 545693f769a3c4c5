"""KERPLE's kernels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jrope

R1, R2 = jnp.array([0.1, 0.5, 1.0, 2.0]), jnp.array([0.2, 1.0, 1.5, 2.0])


def test_kerple_values_and_alibi_as_its_special_case():
    q, k = jnp.array([10]), jnp.array([3, 10])
    log, power = (jax.jit(f)(R1, R2, q, k) for f in (jrope.kerple_log, jrope.kerple_power))
    np.testing.assert_allclose(log[:, 0, 0], -R1 * np.log(1 + R2 * 7), rtol=1e-6)
    np.testing.assert_allclose(power[:, 0, 0], -R1 * 7.0**R2, rtol=1e-5)
    linear = jrope.kerple_power(jrope.alibi_slopes(4), np.ones(4), q, k)
    np.testing.assert_allclose(linear, jrope.alibi(q, k, num_heads=4), rtol=1e-6)


@pytest.mark.parametrize("encoding", [jrope.KerpleLog(), jrope.KerplePower()], ids=repr)
def test_kerple_decays_whatever_is_learned(encoding):
    """r1 and r2 are positive, and the power at most 2, even where training diverged."""
    q, k = jnp.array([100]), jnp.arange(100)

    @jax.jit
    def bias(r1, r2):
        params = {"r1": jnp.full(2, r1), "r2": jnp.full(2, r2)}
        return encoding.bias(params, q, k, num_heads=2)

    for value in (-20.0, -3.0, 0.0, 3.0, 20.0):
        made = np.asarray(bias(value, value))
        assert (made <= 0).all()
        assert (np.diff(made) >= 0).all()
        assert np.isfinite(made).all()
    if isinstance(encoding, jrope.KerplePower):
        made = bias(0.0, 50.0)
        np.testing.assert_allclose(made[0, 0, 0] / made[0, 0, 50], 4.0, rtol=1e-6)


def test_kerple_starts_as_the_official_code_does():
    sizes = {"features": 8, "num_heads": 4000, "head_dim": 2, "num_layers": 1}
    for encoding, highest in ((jrope.KerpleLog(), (2, 1)), (jrope.KerplePower(), (1, 2))):
        params = encoding.init(jax.random.key(0), **sizes)
        r1 = jax.nn.softplus(params["r1"])
        log = isinstance(encoding, jrope.KerpleLog)
        r2 = jax.nn.softplus(params["r2"]) if log else 2 * jax.nn.sigmoid(params["r2"])
        for r, high in zip((r1, r2), highest, strict=True):
            got = [r.min(), r.mean(), r.max()]
            np.testing.assert_allclose(got, [0.01, high / 2, high], atol=0.04)
