"""The same functions inside every JAX library and under every transformation."""

import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_encoding import EVERY, ONE_OF_EACH_KIND
from flax import linen as nn
from flax import nnx
from jax.sharding import Mesh, PartitionSpec

import jrope
from jrope.attention import attention
from jrope.composition import sum_biases

ENCODINGS = [*EVERY, jrope.Rope(scaling=jrope.Yarn(4.0, 8), layout="half")]
SIZES = {"features": 16, "num_heads": 2, "head_dim": 8, "num_layers": 1}
X, POSITIONS = jax.random.normal(jax.random.key(0), (4, 5, 16)), jnp.array([0, 1, 2, 4, 7])
each = pytest.mark.parametrize("encoding", ENCODINGS, ids=repr)
one_of_each = pytest.mark.parametrize("encoding", ONE_OF_EACH_KIND, ids=repr)


def attend(encoding, params, x, positions):
    """A model of one attention, in nothing but JAX: [B, T, D] -> [B, T, D]."""
    x = encoding.embed(params, x, positions)
    encoding, params = encoding.layer(params, 0)
    q = k = v = x.reshape((*x.shape[:-1], 2, 8))
    q, k = encoding.rotation(params, positions, positions, head_dim=8, length=8)(q, k)
    if (query_scale := encoding.query_scale(params, positions)) is not None:
        lifted = query_scale[..., None, None]
        q = (q * lifted.reshape((1,) * (q.ndim - lifted.ndim) + lifted.shape)).astype(q.dtype)
    mask, scale = jnp.tri(positions.shape[-1], dtype=bool), encoding.softmax_scale(8)
    state = encoding.state(params, x, layer=0)
    options = {"layer": 0, "mask": mask, "scale": scale}
    biases = [
        encoding.bias(params, positions, positions, num_heads=2),
        encoding.state_bias(params, state, state),
        encoding.content_bias(params, q, k, positions, positions, **options),
    ]
    return attention(q, k, v, bias=sum_biases(biases), mask=mask, scale=scale).reshape(x.shape)


def bare(encoding, x=X, positions=POSITIONS):
    params = encoding.init(jax.random.key(3), **SIZES)
    return params, attend(encoding, params, x, positions)


@one_of_each
def test_flax_nnx(encoding):
    class Model(nnx.Module):
        def __init__(self, rngs):
            self.position = nnx.data(jax.tree.map(nnx.Param, encoding.init(rngs.params(), **SIZES)))

        def __call__(self, x):
            params = jax.tree.map(
                lambda p: p[...], self.position, is_leaf=lambda p: isinstance(p, nnx.Param)
            )
            return attend(encoding, params, x, POSITIONS)

    model = Model(nnx.Rngs(0))
    params = jax.tree.map(
        lambda p: p[...], model.position, is_leaf=lambda p: isinstance(p, nnx.Param)
    )
    np.testing.assert_allclose(nnx.jit(model)(X), attend(encoding, params, X, POSITIONS), atol=1e-5)


@one_of_each
def test_flax_linen(encoding):
    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            return attend(
                encoding,
                self.param("position", lambda key: encoding.init(key, **SIZES)),
                x,
                POSITIONS,
            )

    variables = jax.jit(Model().init)(jax.random.key(0), X)
    params = variables.get("params", {}).get("position", {})
    np.testing.assert_allclose(
        jax.jit(Model().apply)(variables, X), attend(encoding, params, X, POSITIONS), atol=1e-5
    )


@one_of_each
def test_equinox(encoding):
    class Model(eqx.Module):
        params: dict
        encoding: jrope.Encoding = eqx.field(static=True)

        def __call__(self, x):
            return attend(self.encoding, self.params, x, POSITIONS)

    params, want = bare(encoding)
    np.testing.assert_allclose(eqx.filter_jit(Model(params, encoding))(X), want, atol=1e-5)


@one_of_each
def test_haiku(encoding):
    def model(x):
        shapes = jax.eval_shape(lambda: encoding.init(jax.random.key(0), **SIZES))
        if not jax.tree.leaves(shapes):
            return attend(encoding, encoding.init(None, **SIZES), x, POSITIONS)
        drawn = encoding.init(
            hk.next_rng_key() if hk.running_init() else jax.random.key(0), **SIZES
        )
        leaves, structure = jax.tree.flatten(drawn)
        held = [
            hk.get_parameter(str(i), leaf.shape, init=lambda *_, leaf=leaf: leaf)
            for i, leaf in enumerate(leaves)
        ]
        return attend(encoding, jax.tree.unflatten(structure, held), x, POSITIONS)

    pure = hk.without_apply_rng(hk.transform(model))
    held = pure.init(jax.random.key(0), X)
    structure = jax.tree.structure(encoding.init(jax.random.key(0), **SIZES))
    params = jax.tree.unflatten(structure, [held["~"][str(i)] for i in range(structure.num_leaves)])
    np.testing.assert_allclose(
        jax.jit(pure.apply)(held, X), attend(encoding, params, X, POSITIONS), atol=1e-5
    )


@each
def test_jit_vmap_scan_and_remat(encoding):
    params, want = bare(encoding)
    np.testing.assert_allclose(
        jax.jit(attend, static_argnums=0)(encoding, params, X, POSITIONS), want, atol=1e-5
    )
    rows = jax.vmap(lambda x, positions: attend(encoding, params, x[None], positions)[0])(
        X, jnp.tile(POSITIONS, (4, 1))
    )
    np.testing.assert_allclose(rows, want, atol=1e-5)
    _, scanned = jax.lax.scan(
        lambda _, x: (None, attend(encoding, params, x[None], POSITIONS)[0]), None, X
    )
    np.testing.assert_allclose(scanned, want, atol=1e-5)
    plain, saved = (
        jax.grad(lambda x, f=f: (f(encoding, params, x, POSITIONS) ** 2).sum())(X)
        for f in (attend, jax.checkpoint(attend, static_argnums=0))
    )
    np.testing.assert_allclose(plain, saved, atol=1e-5)
    assert jnp.isfinite(plain).all()


@each
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_half_precision(encoding, dtype):
    params, want = bare(encoding)
    got = attend(encoding, params, X.astype(dtype), POSITIONS)
    assert got.dtype == dtype
    np.testing.assert_allclose(got.astype(jnp.float32), want, atol=0.15)


@each
def test_x64_mode(encoding):
    params, want = bare(encoding)
    with jax.enable_x64(True):
        got = attend(
            encoding, params, jnp.asarray(X, jnp.float64), jnp.asarray(POSITIONS, jnp.int64)
        )
        assert got.dtype == jnp.float64
        np.testing.assert_allclose(got, want, atol=1e-5)


@each
def test_shard_map(encoding):
    """Each shard is given its own position ids; nothing is counted from where an array starts."""
    params, want = bare(encoding)
    mesh = Mesh(np.array(jax.devices()), ("data",))
    spec = PartitionSpec("data")
    ids = jnp.tile(POSITIONS, (4, 1))
    sharded = jax.shard_map(
        lambda x, ids: attend(encoding, params, x, ids),
        mesh=mesh,
        in_specs=(spec, spec),
        out_specs=spec,
    )
    np.testing.assert_allclose(jax.jit(sharded)(X, ids), want, atol=1e-5)


def test_casting_a_model_changes_no_frequency():
    """transformers 5.24: model.to(bfloat16) casts inv_freq, and every rotation with it."""
    encoding = jrope.Rope().bind(head_dim=8, length=8)
    model = {"weights": jnp.ones(3), "encoding": encoding}
    cast = jax.tree.map(lambda a: a.astype(jnp.bfloat16) if a is model["weights"] else a, model)
    np.testing.assert_array_equal(
        cast["encoding"].spectrum.phase_increments, encoding.spectrum.phase_increments
    )
    everything = jax.tree.map(
        lambda a: (
            jnp.asarray(a, jnp.bfloat16) if jnp.issubdtype(jnp.result_type(a), jnp.floating) else a
        ),
        encoding,
    )
    q = jax.random.normal(jax.random.key(0), (1, 3, 2, 8))
    positions = jnp.array([0, 777, 4095])
    for got, want in zip(
        *(e.rotation({}, positions, positions, head_dim=8)(q, q) for e in (everything, encoding)),
        strict=True,
    ):
        np.testing.assert_allclose(
            got, want, atol=1e-6
        )  # angles come from the integer turns, which no cast touches
