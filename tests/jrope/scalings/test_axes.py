"""Several position axes: published maps, the laws of a rotation along each axis, and text, whose
position is the same along all axes."""

import jax
import numpy as np
import pytest
from golden_values import VALUES

import jrope
from jrope import Axial, Rope, Rotary, Sections

MAPS = VALUES["mrope_axis_of_pair"]
ALL = [Sections((3, 3, 2)), Sections((3, 3, 2), interleaved=True), Axial(2), Axial(4)]
each = pytest.mark.parametrize("axes", ALL, ids=repr)
rotate = jax.jit(jrope.rotate, static_argnames="layout")


def normal(*shape, seed=0):
    return jax.random.normal(jax.random.key(seed), shape)


def grid(rows, columns):
    """Position ids [2, T] of an image's patches, row by row."""
    return np.stack(np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")).reshape(2, -1)


@pytest.mark.parametrize(
    ("sections", "interleaved", "name"),
    [
        ((16, 24, 24), False, "qwen2-vl chunked [16,24,24]"),
        ((8, 12, 12), False, "glm-4v chunked [8,12,12]"),
        ((24, 20, 20), True, "qwen3-vl interleaved [24,20,20]"),
        ((11, 11, 10), True, "qwen3.5 interleaved [11,11,10]"),
    ],
)
def test_published_axis_maps(sections, interleaved, name):
    """MNN PR#4133, vllm-gaudi PR#1437, mlx-vlm PR#576: one order mistaken for the other."""
    start = jrope.spectrum(2 * sum(sections))
    got = Sections(sections, interleaved)(start)
    assert list(got.axes) == MAPS[name]
    np.testing.assert_array_equal(got.frequencies, start.frequencies)


@each
def test_each_pair_turns_with_its_own_axis_and_exactly(axes):
    """Against the one-axis rotation of every pair. The positions are so large that a float32
    product would be off by a whole turn."""
    spectrum = axes(jrope.spectrum(16))
    count = max(spectrum.axes) + 1
    positions = np.arange(count * 5).reshape(count, 5) * 100_000_007
    cos, sin = jrope.rotation_tables(positions, spectrum)
    assert cos.shape == (5, 8)
    for pair, axis in enumerate(spectrum.axes):
        one = jrope.Spectrum(spectrum.frequencies[pair : pair + 1])
        want = jrope.rotation_tables(positions[axis], one)[0]
        # but for the last bit, which depends on how XLA fuses the program
        np.testing.assert_allclose(cos[:, pair : pair + 1], want, rtol=0, atol=6e-8)
        angle = positions[axis].astype(np.longdouble) * np.longdouble(spectrum.frequencies[pair])
        np.testing.assert_allclose(sin[:, pair], np.sin(angle), atol=1e-6)


@each
def test_scores_depend_on_the_distance_along_every_axis(axes):
    spectrum = axes(jrope.spectrum(16, base=100.0))
    q, k = normal(6, 1, 16, seed=1), normal(6, 1, 16, seed=2)
    count = max(spectrum.axes) + 1
    positions = np.asarray(jax.random.randint(jax.random.key(3), (count, 6), 0, 50))

    def scores(offset):
        q_, k_ = (np.asarray(rotate(x, positions + offset, spectrum)) for x in (q, k))
        return np.einsum("tnh,snh->ts", q_, k_)

    shift = np.arange(1, count + 1)[:, None] * 1000
    np.testing.assert_allclose(scores(shift), scores(0), atol=2e-5)
    for axis in range(count):  # every axis has an effect, and not that of another
        moved = positions.copy()
        moved[axis] += 3
        difference = rotate(q, moved, spectrum) - rotate(q, positions, spectrum)
        pairs = np.abs(difference).max((0, 1)).reshape(8, 2).max(-1) > 1e-2
        np.testing.assert_array_equal(pairs, np.array(spectrum.axes) == axis)


@pytest.mark.parametrize("sections", ALL[:2], ids=repr)
@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_text_is_plain_rope(sections, layout):
    """Liger-Kernel PR#276, LlamaFactory PR#10783, axolotl PR#3817: ids [B, T] are the same along
    all axes; [A, B, T] are accepted too."""
    x, plain = normal(3, 4, 2, 16), jrope.spectrum(16)
    # three rows, which are not three axes
    ids = np.array([[0, 1, 2, 3], [5, 6, 7, 8], [0, 0, 1, 2]])
    want = rotate(x, ids, plain, layout=layout)
    for positions in (ids, np.stack([ids] * 3)):
        got = rotate(x, positions, sections(plain), layout=layout)
        np.testing.assert_array_equal(got, want)
    got, want = (rotate(x, ids[1], s, layout=layout) for s in (sections(plain), plain))
    np.testing.assert_array_equal(got, want)


def test_axial_gives_every_axis_the_whole_range():
    """ncnn#6833: the two halves of the tables differ, since rows and columns do."""
    spectrum = Axial(2)(jrope.spectrum(16))
    want = np.tile(jrope.spectrum(8).frequencies, 2)
    np.testing.assert_allclose(spectrum.frequencies, want, rtol=1e-15)
    assert spectrum.axes == (0, 0, 0, 0, 1, 1, 1, 1)
    cos, _ = jrope.rotation_tables(grid(3, 4), spectrum)
    by_axis = [jrope.rotation_tables(p, jrope.spectrum(8))[0] for p in grid(3, 4)]
    np.testing.assert_array_equal(cos, np.concatenate(by_axis, axis=-1))


def test_axial_counts_rows_before_columns_and_from_zero():
    """VisionLLaMA#4, vmlx-swift PR#225: the order of axes and the first coordinate are fixed."""
    x, spectrum = np.asarray(normal(12, 1, 16)), Axial(2)(jrope.spectrum(16))
    turned = np.asarray(rotate(x, grid(3, 4), spectrum, layout="interleaved"))
    np.testing.assert_array_equal(turned[:4, :, :8], x[:4, :, :8])  # row 0 turns no first half
    np.testing.assert_array_equal(turned[::4, :, 8:], x[::4, :, 8:])  # column 0 no second
    assert np.abs(rotate(x, grid(3, 4)[::-1], spectrum) - turned).max() > 1e-2


def test_axes_under_partial_rotary():
    """maxtext#4616 ignored the partial factor with M-RoPE."""
    rope = Rope(rotary_fraction=0.25, axes=Sections((1, 1)))
    x = np.asarray(normal(3, 1, 16))
    rotation = rope.rotation({}, np.array([[0, 1, 2], [5, 7, 9]]), np.arange(3), head_dim=16)
    q = np.asarray(rotation(x, x)[0])
    np.testing.assert_array_equal(q[..., 4:], x[..., 4:])
    assert np.abs(q[..., 2:4] - x[..., 2:4]).max() > 1e-2


def test_an_encoding_distinguishes_axes_from_rows_by_the_rank_of_its_input():
    rope = Rope(axes=Sections((2, 3, 3)), layout="half", scaling=jrope.Linear(2.0))
    spectrum = rope.spectrum(16)
    assert spectrum.axes == (0, 0, 1, 1, 1, 2, 2, 2)
    q, k = normal(3, 5, 2, 16, seed=1), normal(3, 5, 1, 16, seed=2)
    rotated = jax.jit(lambda e, p, q, k: e.rotation({}, p, p, head_dim=16)(q, k))
    for positions in (np.arange(15).reshape(3, 5), np.arange(45).reshape(3, 3, 5)):
        want = [rotate(x, positions, spectrum, layout="half") for x in (q, k)]
        for encoding in (rope, rope.bind(head_dim=16, length=5)):
            for a, b in zip(rotated(encoding, positions, q, k), want, strict=True):
                np.testing.assert_allclose(a, b, atol=1e-6)


def test_a_spectrum_with_axes_is_a_pytree_and_its_axes_are_structure():
    plain = jrope.spectrum(16)
    with_axes = Axial(2)(plain)
    leaves, structure = jax.tree.flatten(with_axes)
    assert jax.tree.unflatten(structure, leaves) == with_axes
    assert jax.tree.structure(plain) != structure
    x, positions = normal(6, 1, 16), grid(2, 3)
    want = jrope.rotate(x, positions, with_axes)
    np.testing.assert_allclose(rotate(x, positions, with_axes), want, atol=1e-6)
    fractional = rotate(x, positions.astype(np.float32), with_axes)
    np.testing.assert_allclose(fractional, want, atol=1e-5)

    @jax.jit
    def from_base(base):
        return jrope.rotate(x, positions, Axial(2)(jrope.spectrum(16, base=base)))

    np.testing.assert_allclose(from_base(10_000.0), fractional, atol=1e-5)


X = np.ones((2, 4, 1, 16), np.float32)
MROPE = Sections((3, 3, 2))(jrope.spectrum(16))


def zeros(*shape):
    return np.zeros(shape, int)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: jrope.rotate(X, zeros(2, 2, 4), MROPE), r"\(2, 2, 4\).*at least 3 axes"),
        (lambda: jrope.rotate(X, zeros(3, 2, 5), MROPE), r"\(2, 5\) do not broadcast to \(2, 4\)"),
        (lambda: jrope.rotate(X, zeros(3, 1, 2, 4), MROPE), r"\(1, 2, 4\) do not .* \(2, 4\)"),
        (lambda: jrope.rotate(X, zeros(3, 4), MROPE), r"\(3, 4\) do not broadcast to \(2, 4\)"),
        (lambda: jrope.rotate(X, zeros(3, 2, 4), jrope.spectrum(16)), "do not broadcast"),
        (lambda: jrope.rotation_tables(zeros(), MROPE), r"\(\).*at least 3 axes"),
        (
            lambda: Rotary(MROPE).rotation({}, zeros(2, 2, 4), np.arange(4), head_dim=16)(X, X),
            "at least 3 axes",
        ),
        (lambda: jrope.Spectrum([1.0, 0.5], axes=(0,)), "axes must be 2 axis numbers.*got"),
        (lambda: jrope.Spectrum([1.0, 0.5], axes=(0, -1)), "axes must be 2 axis numbers.*-1"),
        (lambda: Sections((4, 5))(jrope.spectrum(16)), r"\(4, 5\) must add up to.* 8 pairs"),
        (
            lambda: Sections((2, 3, 3), True)(jrope.spectrum(16)),
            r"no interleaved order of 8 pairs has sections \(2, 3, 3\)",
        ),
        (lambda: Sections((4, -1)), "at least 0 for each axis"),
        (lambda: Sections(()), "numbers of pairs"),
        (lambda: Axial(3)(jrope.spectrum(16)), r"3 axes must divide.* 8 pairs \(16 features\)"),
        (lambda: Axial(0), "axes must be at least 1, got 0"),
    ],
)
def test_bad_axes(call, words):
    """sglang PR#3605: M-RoPE positions of the wrong rank were accepted."""
    with pytest.raises(ValueError, match=words):
        call()
