"""Which fused kernel is taken on which accelerator, as far as can be seen on a CPU: that it is called, and that it lowers."""

from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import jrope
from jrope.attention import fused

H100 = SimpleNamespace(platform="gpu", compute_capability="9.0")
V100 = SimpleNamespace(platform="gpu", compute_capability="7.0")
MI300 = SimpleNamespace(platform="gpu", compute_capability="gfx942")
TPU = SimpleNamespace(platform="tpu")


@pytest.fixture
def on(monkeypatch):
    return lambda device: monkeypatch.setattr(fused.jax, "devices", lambda: [device])


def qkv(dtype=jnp.bfloat16, length=256, dim=64, heads=(4, 4, 4), values=None):
    dtypes = (dtype, dtype, values or dtype)
    return [
        jax.random.normal(jax.random.key(i), (2, length, n, dim), dtypes[i])
        for i, n in enumerate(heads)
    ]


def test_cudnn_is_asked_for_what_blocks_compute(on, monkeypatch):
    asked = []

    def kernel(*arrays, implementation, original=jax.nn.dot_product_attention, **options):
        asked.append(implementation)
        return original(*arrays, **options)

    want = jrope.blocked_attention(*qkv(), start=0, scale=0.1)
    on(H100)
    monkeypatch.setattr(fused.jax.nn, "dot_product_attention", kernel)
    got = jrope.blocked_attention(*qkv(), start=0, scale=0.1)
    assert asked == ["cudnn"]
    np.testing.assert_allclose(got.astype(jnp.float32), want.astype(jnp.float32), atol=2e-2)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float32])
def test_the_tpu_kernel_lowers_with_its_gradient(on, dtype):
    on(TPU)

    def objective(q, k, v):
        return jrope.blocked_attention(q, k, v, start=0).astype(jnp.float32).sum()

    program = export.export(jax.jit(jax.value_and_grad(objective, (0, 1, 2))), platforms=["tpu"])(
        *qkv(dtype)
    )
    assert "tpu_custom_call" in program.mlir_module()


def bias(operands, rows, columns):
    return -jnp.abs(rows[:, None] - columns[None, :]).astype(jnp.float32)[None]


@pytest.mark.parametrize(
    ("device", "arrays", "options"),
    [
        (V100, {}, {"start": 0}),
        (MI300, {}, {"start": 0}),
        (H100, {"dtype": jnp.float32}, {"start": 0}),
        (H100, {"dim": 4}, {"start": 0}),
        (H100, {}, {"start": 0, "bias": bias}),
        (H100, {}, {"start": 3}),
        (H100, {"values": jnp.float32}, {"start": 0}),
        (TPU, {"length": 200}, {"start": 0}),
        (TPU, {"heads": (4, 2, 2)}, {"start": 0}),
    ],
)
def test_what_no_kernel_takes_goes_in_blocks(on, device, arrays, options):
    want = jrope.blocked_attention(*qkv(**arrays), **options)
    on(device)
    got = jax.jit(partial(jrope.blocked_attention, **options))(*qkv(**arrays))
    np.testing.assert_allclose(got.astype(jnp.float32), want.astype(jnp.float32), atol=2e-2)
