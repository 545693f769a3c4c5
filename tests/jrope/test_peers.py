"""jrope beside transformers on the same inputs: against its stored outputs, and against itself where it is installed.

Their angles are float32 products, which at position 10,000 are wrong by up to 1e-3.
"""

import importlib.util
import json

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from peers import GOLDEN, GRID, POSITIONS, inputs, outputs

import jrope

STORED = json.loads(GOLDEN.read_text())
Q, K, TABLE = inputs()
ROTARY = {
    "llama": (jrope.Rope(layout="half"), POSITIONS),
    "gptj": (jrope.Rope(layout="interleaved"), POSITIONS),
    "glm4": (jrope.Rope(layout="interleaved", rotary_fraction=0.5), POSITIONS),
    "qwen2_vl": (jrope.Rope(layout="half", axes=jrope.Sections((2, 3, 3))), GRID),
}


@pytest.mark.parametrize("kind", ROTARY)
def test_rotary(kind):
    encoding, positions = ROTARY[kind]
    ours = encoding.rotation({}, jnp.asarray(positions), jnp.asarray(positions), head_dim=16)(
        jnp.asarray(Q), jnp.asarray(K)
    )
    near = (positions if positions.ndim == 2 else positions[0]) <= 1000
    for got, want in zip(ours, STORED[kind], strict=True):
        np.testing.assert_allclose(got[near], np.array(want)[near], atol=2e-4)
        np.testing.assert_allclose(got, want, atol=5e-3)
        np.testing.assert_allclose(got[0, :3], np.array(want)[0, :3], atol=2e-6)


@pytest.mark.parametrize(
    ("kind", "index", "heads"), [("bloom", 0, 8), ("bloom", 1, 12), ("mpt", 0, 8), ("mpt", 1, 12)]
)
def test_alibi(kind, index, heads):
    """Theirs is a bias of the key alone: the same attention, since a softmax does not see what is added to a whole row."""
    theirs = np.array(STORED[kind][index]).reshape(heads, 1, 6)
    ours = np.asarray(jrope.alibi(jnp.arange(6), jnp.arange(6), num_heads=heads))

    def causal_softmax(bias):
        weights = np.exp(np.where(np.tril(np.ones((6, 6), bool)), bias, -np.inf))
        return weights / weights.sum(-1, keepdims=True)

    np.testing.assert_allclose(causal_softmax(ours), causal_softmax(theirs), atol=1e-6)


@pytest.mark.parametrize(("index", "bidirectional"), [(0, False), (1, True)])
def test_t5(index, bidirectional):
    rows = jnp.array([0, 5, 299])
    ours = jrope.t5(
        jnp.asarray(TABLE), rows, jnp.arange(300), max_distance=128, bidirectional=bidirectional
    )
    np.testing.assert_array_equal(ours, np.array(STORED["t5"][index], np.float32))


@pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="transformers is not installed"
)
def test_stored_outputs_are_those_of_transformers():
    for name, values in outputs().items():
        for got, want in zip(values, STORED[name], strict=True):
            np.testing.assert_allclose(got, want, atol=1e-6)


@pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="transformers is not installed"
)
@pytest.mark.parametrize(
    ("ours", "theirs", "rotary_dim"),
    [("cohere.Cohere", "llama.Llama", 8), ("glm.Glm", "glm4_moe.Glm4Moe", 4)],
    ids=["whole heads", "half of each head"],
)
def test_a_converted_checkpoint_attends_alike(ours, theirs, rotary_dim):
    """Interleaved attention (Cohere, GLM) in a half one (Llama, GLM-4.5), with biases and keys of grouped heads."""
    torch = pytest.importorskip("torch")
    sizes = {
        "hidden_size": 32,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "attention_bias": True,
    }
    share = {"partial_rotary_factor": rotary_dim / 8, "rope_type": "default", "rope_theta": 1e4}
    outputs, weights = [], None
    for name in (ours, theirs):
        package, kind = name.split(".")
        module = importlib.import_module(f"transformers.models.{package}.modeling_{package}")
        config = getattr(importlib.import_module("transformers"), f"{kind}Config")(
            **sizes, rope_parameters=share
        )
        config._attn_implementation = "eager"
        torch.manual_seed(0)
        attention = getattr(module, f"{kind}Attention")(config, layer_idx=0).eval()
        x = torch.randn(1, 9, 32)
        if weights is None:
            weights = {
                key: torch.randn(value.shape) / 4 for key, value in attention.state_dict().items()
            }
        else:
            for key, heads in (("q_proj", 4), ("k_proj", 2)):
                for part in (
                    f"{key}.{end}" for end in ("weight", "bias") if f"{key}.{end}" in weights
                ):
                    rows = jrope.to_half(
                        weights[part].numpy(), num_heads=heads, rotary_dim=rotary_dim
                    )
                    weights[part] = torch.tensor(rows)
        missing, unexpected = attention.load_state_dict(weights, strict=False)
        assert not unexpected
        assert all("o_proj.bias" in key for key in missing)
        with torch.no_grad():
            for key in missing:
                attention.get_parameter(key).zero_()
            tables = getattr(module, f"{kind}RotaryEmbedding")(config)(x, torch.arange(9)[None] * 7)
            outputs.append(attention(x, tables, None)[0].numpy())
    np.testing.assert_allclose(*outputs, atol=1e-5)


def peer_cosines(peer, position):
    """The cosines of 32 pairs as a package for PyTorch makes them."""
    torch = pytest.importorskip("torch")
    module = pytest.importorskip(peer.replace("-", "_"))
    if peer == "transformers":
        from transformers.models.llama.modeling_llama import LlamaConfig, LlamaRotaryEmbedding  # type: ignore

        rotary = LlamaRotaryEmbedding(LlamaConfig(hidden_size=64, num_attention_heads=1))
        return rotary(torch.zeros(1, 1, 64), torch.tensor([[position]]))[0].numpy().ravel()[:32]
    if peer == "rotary-embedding-torch":
        return (
            module.RotaryEmbedding(dim=64)
            .forward(torch.tensor([float(position)]))
            .detach()
            .cos()
            .numpy()
            .ravel()[::2]
        )
    angles = module.x_transformers.RotaryEmbedding(64)(torch.tensor([position]))[0]
    return angles.detach().cos().numpy().ravel()[:64:2]


@pytest.mark.parametrize("peer", ["transformers", "rotary-embedding-torch", "x-transformers"])
@pytest.mark.parametrize(
    ("position", "theirs"), [(1000, 1.4e-5), (100_000, 1.1e-3), (1_000_000, 1.6e-2)]
)
def test_the_readme_on_angles_of_peers(peer, position, theirs):
    mpmath.mp.dps = 40
    exact = [
        float(mpmath.cos(position * mpmath.mpf(10_000) ** (-mpmath.mpf(i) / 32))) for i in range(32)
    ]
    error = np.abs(peer_cosines(peer, position) - exact).max()
    assert error == pytest.approx(theirs, rel=0.05)


@pytest.mark.parametrize("position", [1000, 100_000, 1_000_000])
def test_the_readme_on_angles_of_jrope(position):
    mpmath.mp.dps = 40
    exact = [
        float(mpmath.cos(position * mpmath.mpf(10_000) ** (-mpmath.mpf(i) / 32))) for i in range(32)
    ]
    cosines = jax.jit(jrope.rotation_tables)(jnp.array([position]), jrope.spectrum(64))[0][0]
    assert (
        np.abs(np.asarray(cosines) - exact).max() < 1.2e-7
    )  # the README's number is that of one CPU
