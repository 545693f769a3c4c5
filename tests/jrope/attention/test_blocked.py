"""Attention over blocks of keys is attention: values, gradients, every encoding, and no array of all pairs."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_encoding import EVERY, TOKENS, VARIANTS, model

import jrope.transformer
from jrope.attention import attention, blocked_attention, encoded


def distances(operands, rows, columns):
    """A bias with a parameter for each head, that sees the positions of queries and keys."""
    slopes, q_positions, k_positions, _ = operands
    return -slopes[:, None, None] * jnp.abs(
        q_positions[rows][:, None] - k_positions[columns][None]
    )[None].astype(jnp.float32)


def real_keys(operands, rows, columns):
    return jnp.broadcast_to(
        operands[3][:, None, columns], (len(operands[3]), rows.size, columns.size)
    )


def inputs(batch, rows, columns, heads, groups, dim=8, dtype=jnp.float32):
    keys = jax.random.split(jax.random.key(0), 6)
    q = jax.random.normal(keys[0], (batch, rows, heads, dim), dtype)
    k, v = (jax.random.normal(key, (batch, columns, groups, dim), dtype) for key in keys[1:3])
    real = jax.random.bernoulli(keys[3], 0.7, (batch, columns)).at[:, 0].set(True)
    operands = (
        jax.random.uniform(keys[4], (heads,)),
        jnp.arange(rows) + columns - rows,
        jnp.arange(columns),
        real,
    )
    return (q, k, v, operands), jax.random.normal(keys[5], q.shape)


@partial(jax.jit, static_argnames=("block", "causal"))
def blocked(q, k, v, operands, block, causal):
    start = k.shape[1] - q.shape[1] if causal else None
    return blocked_attention(
        q, k, v, bias=distances, mask=real_keys, operands=operands, start=start, block=block
    )


@partial(jax.jit, static_argnames=("block", "causal"))
def dense(q, k, v, operands, block, causal):
    rows, columns = jnp.arange(q.shape[1]), jnp.arange(k.shape[1])
    mask = real_keys(operands, rows, columns)
    if causal:
        mask &= (columns[None, :] <= k.shape[1] - q.shape[1] + rows[:, None])[None]
    return attention(q, k, v, bias=distances(operands, rows, columns), mask=mask)


@pytest.mark.parametrize(
    ("rows", "more", "heads", "block", "causal"),
    [
        (16, 0, (2, 2), 4, True),
        (21, 9, (4, 2), 5, True),
        (13, 8, (4, 1), 8, False),
        (1, 7, (1, 1), 3, True),
        (9, 0, (2, 2), 64, False),
    ],
)
def test_values_and_gradients_are_those_of_the_dense_form(rows, more, heads, block, causal):
    """Lengths that fill no block, queries at the end of longer keys, fewer heads of keys, padding, learned biases."""
    given, weights = inputs(2, rows, rows + more, *heads)

    def both(form):
        def objective(q, k, v, slopes):
            out = form(q, k, v, (slopes, *given[3][1:]), block=block, causal=causal)
            return (out * weights).sum(), out

        return jax.value_and_grad(objective, (0, 1, 2, 3), has_aux=True)(*given[:3], given[3][0])

    got, want = (jax.tree.leaves(both(form)) for form in (blocked, dense))
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)


def from_start(form, q, k, v, slopes, operands, start, block):
    """Attention with all that it takes; the dense form has the order in its mask."""
    operands = (slopes, *operands[1:])
    if form is blocked:
        options = {"bias": distances, "mask": real_keys, "operands": operands}
        return blocked_attention(q, k, v, start=start, block=block, **options)
    rows, columns = jnp.arange(q.shape[1]), jnp.arange(k.shape[1])
    mask = real_keys(operands, rows, columns)
    if start is not None:
        mask &= (columns[None, :] <= start + rows[:, None])[None]
    return attention(q, k, v, bias=distances(operands, rows, columns), mask=mask)


def second_derivatives(objective, primals, tangents):
    """H t of an objective: forward over reverse, reverse over reverse, and reverse over forward."""
    arguments = tuple(range(len(primals)))
    gradient = jax.grad(objective, arguments)

    def slope(*primals):
        return sum(map(jnp.vdot, gradient(*primals), tangents))

    def forward(*primals):
        return jax.jvp(objective, primals, tangents)[1]

    return (
        jax.jvp(gradient, primals, tangents)[1],
        jax.grad(slope, arguments)(*primals),
        jax.grad(forward, arguments)(*primals),
    )


@pytest.mark.parametrize(
    ("rows", "columns", "heads", "block", "start", "traced"),
    [(9, 13, (4, 2), 4, 4, False), (9, 13, (2, 1), 4, 4, True), (5, 8, (2, 2), 3, None, False)],
)
def test_derivatives_of_first_and_second_order_are_those_of_the_dense_form(
    rows, columns, heads, block, start, traced
):
    """In forward and reverse mode and their compositions, in float64, with a learned bias."""
    with jax.enable_x64(True):
        (*qkv, operands), _ = inputs(2, rows, columns, *heads, dtype=jnp.float64)
        primals = (*qkv, operands[0].astype(jnp.float64))
        tangents = tuple(jnp.cos(3.0 * x + 1) for x in primals)

        @partial(jax.jit, static_argnums=(0,) if traced else (0, 1))
        def both_orders(form, start, primals, operands):
            def attend(*primals):
                return from_start(form, *primals, operands, start, block) ** 2

            def objective(*primals):
                return attend(*primals).sum()

            first = jax.jvp(attend, primals, tangents)
            return first, second_derivatives(objective, primals, tangents)

        got, want = (both_orders(form, start, primals, operands) for form in (blocked, dense))
        for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
            assert one.dtype == jnp.float64
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("loop", ["scan", "fori_loop"])
def test_a_gradient_through_a_loop_of_gradients_under_vmap(loop):
    """Two steps of gradient descent on the queries, with several starts and biases."""
    (q, k, v, operands), _ = inputs(1, 5, 7, 2, 1)
    starts, slopes = jnp.arange(3), jnp.outer(jnp.arange(1.0, 4.0), operands[0])

    def descended(form, slopes, start):
        def objective(q):
            return (from_start(form, q, k, v, slopes, operands, start, block=3) ** 2).sum()

        def step(q):
            return q - 0.1 * jax.grad(objective)(q)

        if loop == "scan":
            last, _ = jax.lax.scan(lambda q, _: (step(q), None), q, length=2)
        else:
            last = jax.lax.fori_loop(0, 2, lambda _, q: step(q), q)
        return objective(last)

    def gradients(form):
        of = jax.value_and_grad(partial(descended, form))
        return jax.jit(jax.vmap(of))(slopes, starts)

    for one, other in zip(gradients(blocked), gradients(dense), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_a_scale_may_be_learned():
    (q, k, v, _), _ = inputs(1, 6, 6, 2, 2)

    def objective(attend, scale):
        return (attend(q, k, v, scale=scale) ** 2).sum()

    of = [partial(objective, form) for form in (partial(blocked_attention, block=4), attention)]
    got, want = (jax.jit(jax.value_and_grad(f))(0.3) for f in of)
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_in_bfloat16_it_is_as_near_as_one_rounding():
    given, _ = inputs(1, 40, 40, 2, 2, dtype=jnp.bfloat16)
    exact = dense(*(x.astype(jnp.float32) for x in given[:3]), given[3], block=16, causal=True)
    got = blocked(*given, block=16, causal=True)
    assert got.dtype == jnp.bfloat16
    np.testing.assert_allclose(got.astype(jnp.float32), exact, atol=2**-6)


def test_a_bias_of_minus_infinity_makes_no_nan():
    """Of a row whose first blocks are all unseen, and of one that sees nothing."""
    (q, k, v, _), _ = inputs(1, 12, 12, 2, 2)

    def bias(first, rows, columns):
        return jnp.where(columns[None, :] >= first[rows][:, None], 0.0, -jnp.inf)[None]

    first = jnp.array([0] * 6 + [9] * 5 + [99])
    attend = partial(blocked_attention, bias=bias, operands=first, block=4)
    got, gradient = jax.jit(jax.value_and_grad(lambda q: attend(q, k, v)[:, :11].sum()))(q)
    want = attention(q, k, v, bias=jnp.maximum(bias(first, jnp.arange(12), jnp.arange(12)), -1e30))[
        :, :11
    ].sum()
    np.testing.assert_allclose(got, want, rtol=1e-5)
    assert jnp.isfinite(gradient).all()


def test_shapes_that_do_not_fit_are_named():
    q = jnp.ones((1, 4, 3, 8))
    with pytest.raises(
        ValueError, match=r"K dividing N, got \(1, 4, 3, 8\), \(1, 4, 2, 8\) and \(1, 4, 2, 8\)"
    ):
        blocked_attention(q, q[:, :, :2], q[:, :, :2])
    with pytest.raises(ValueError, match="block must be at least 1, got 0"):
        blocked_attention(q, q, q, block=0)
    for start, given in ((1.5, "1.5"), (jnp.zeros(2, jnp.int32), r"int32 of shape \(2,\)")):
        wanted = "start must be one integer, the column of the first query, or None"
        with pytest.raises(TypeError, match=f"blocked_attention: {wanted}.*got {given}"):
            blocked_attention(q, q, q, start=start)


@pytest.mark.parametrize("attend", [attention, partial(blocked_attention, start=0, block=2)])
@pytest.mark.parametrize(("batch", "rows", "columns"), [(2, 3, 0), (2, 0, 3), (0, 3, 3), (2, 0, 0)])
def test_without_keys_it_is_zeros_and_without_queries_empty(attend, batch, rows, columns):
    q, k = jnp.ones((batch, rows, 4, 8)), jnp.ones((batch, columns, 2, 8))
    v = 2 * k

    def objective(*qkv):
        out = attend(*qkv)
        return out.sum(), out

    of = jax.value_and_grad(objective, (0, 1, 2), has_aux=True)
    for (_, out), gradients in (of(q, k, v), jax.jit(of)(q, k, v)):
        assert (out.shape, out.dtype) == (q.shape, v.dtype)
        assert not out.any()
        assert [g.shape for g in gradients] == [x.shape for x in (q, k, v)]
        assert not any(g.any() for g in gradients)


@pytest.mark.parametrize("traced", [False, True])
def test_queries_before_all_keys_make_no_nan(traced):
    """Rows whose blocks are all skipped: a start below 0, known and traced."""
    (q, k, v, _), _ = inputs(1, 6, 6, 2, 2)

    def attend(q, start):
        return blocked_attention(q, k, v, start=start, block=2)

    of = jax.jit(
        lambda q, start: jax.value_and_grad(lambda q: attend(q, start).sum())(q),
        static_argnums=() if traced else 1,
    )
    out, gradient = of(q, -4)
    assert jnp.isfinite(out)
    assert jnp.isfinite(gradient).all()
    np.testing.assert_allclose(attend(q, -4)[:, 4:], attend(q[:, 4:], 0), rtol=1e-6)


@pytest.fixture
def in_blocks(monkeypatch):
    """The model attends in blocks of four, to the shortest sequences too; the shapes with which it did so."""
    seen = []

    def blocks(q, *rest, **options):
        seen.append(q.shape)
        return blocked_attention(q, *rest, **options, block=4)

    monkeypatch.setattr(encoded, "MIN_BLOCKED_QUERIES", 0)
    monkeypatch.setattr(encoded, "blocked_attention", blocks)
    return seen


@pytest.mark.parametrize("encoding", EVERY + VARIANTS[-2:], ids=repr)
def test_a_model_under_every_encoding(encoding, in_blocks, monkeypatch):
    """A full pass with padding, and a prompt into a cache; CoPE alone, whose bias depends on content, stays dense."""
    real = jnp.array([[False] * 2 + [True] * 8, [True] * 10])
    positions = jrope.from_mask(real)
    full, step, cache = model.__wrapped__(encoding)
    got, (prompt, _) = (
        full(TOKENS, positions, real),
        step(TOKENS[:, :7], positions[:, :7], cache, real[:, :7]),
    )
    assert bool(in_blocks) == ("Cope" not in repr(encoding))
    monkeypatch.setattr(encoded, "MIN_BLOCKED_QUERIES", 512)
    count = len(in_blocks)
    want = model(encoding)[0](TOKENS, positions, real)
    assert len(in_blocks) == count
    for one, other in ((got, want), (prompt, want[:, :7])):
        np.testing.assert_allclose(
            jnp.where(real[:, : one.shape[1], None], one - other, 0), 0, atol=3e-5
        )


def test_parameters_of_an_encoding_are_trained_through_blocks(in_blocks, monkeypatch):
    config = jrope.transformer.TransformerConfig(
        vocabulary=11, encoding=jrope.Fire(), features=16, heads=2
    )
    params, graphdef = (
        jrope.transformer.init(config, jax.random.key(0)),
        jrope.transformer.abstract(config),
    )

    def gradient():
        def loss(params):
            return jrope.transformer.apply(graphdef, params, TOKENS, jnp.arange(10)).var()

        return jax.tree.leaves(jax.jit(jax.grad(loss))(params))

    got = gradient()
    assert in_blocks
    monkeypatch.setattr(encoded, "MIN_BLOCKED_QUERIES", 512)
    for one, other in zip(got, gradient(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(
    "encoding",
    [
        jrope.Rope(),
        jrope.Alibi(),
        jrope.Chain((jrope.T5(), jrope.Window(9))),
        jrope.ForgettingGate(),
    ],
    ids=repr,
)
def test_a_long_pass_and_its_gradient_hold_no_array_of_all_pairs(encoding):
    """At 2048 tokens, of a model whose other sizes are all below: nothing has two axes of that length, or its square."""
    length = 2048
    config = jrope.transformer.TransformerConfig(
        vocabulary=11, encoding=encoding, features=16, heads=2
    )
    params = jax.eval_shape(partial(jrope.transformer.init, config), jax.random.key(0))
    graphdef = jrope.transformer.abstract(config)

    def loss(params, tokens):
        return jrope.transformer.apply(graphdef, params, tokens, jnp.arange(length)).var()

    tokens = jax.ShapeDtypeStruct((1, length), jnp.int32)
    assert length * 16 <= largest_array(jax.grad(loss), params, tokens) < length**2


@pytest.mark.parametrize("start", [0, None, "traced"])
@pytest.mark.parametrize("order", ["jvp", "jvp of the gradient", "gradient of the gradient"])
def test_no_derivative_holds_an_array_of_all_pairs(order, start):
    length = 2048
    x = jax.ShapeDtypeStruct((1, length, 1, 4), jnp.float32)
    slope = jax.ShapeDtypeStruct((1,), jnp.float32)

    def derivative(primals, tangents, given):
        def objective(*primals):
            operands = primals[3], jnp.arange(length), jnp.arange(length), None
            options = {"bias": distances, "operands": operands}
            first = given if start == "traced" else start
            return (blocked_attention(*primals[:3], start=first, **options) ** 2).sum()

        gradient = jax.grad(objective, (0, 1, 2, 3))
        if order == "jvp":
            return jax.jvp(objective, primals, tangents)
        if order == "jvp of the gradient":
            return jax.jvp(gradient, primals, tangents)
        return jax.grad(lambda p: sum(map(jnp.vdot, gradient(*p), tangents)))(primals)

    primals = (x, x, x, slope)
    given = jax.ShapeDtypeStruct((), jnp.int32)
    assert length * 4 <= largest_array(derivative, primals, primals, given) < length**2


def largest_array(function, *arguments) -> int:
    """The number of elements of the largest array in the compiled program."""
    text = jax.jit(function).lower(*arguments).compile().as_text()
    shapes = re.findall(r"\[([\d,]+)\]", text)
    return max(np.prod([int(n) for n in shape.split(",")]) for shape in shapes)
