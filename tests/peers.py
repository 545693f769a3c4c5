"""What transformers (CPU PyTorch) computes on fixed inputs; `python tests/peers.py` writes golden/transformers.json again."""

import json
from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).parent / "golden" / "transformers.json"
POSITIONS = np.array([[0, 1, 7, 100], [5, 6, 1000, 10_000]])
GRID = np.array(
    [[[0, 1, 2, 2]] * 2, [[0, 1, 5, 6]] * 2, [[0, 1, 9, 8]] * 2]
)  # text, text, image, image: [3, B, T]


def inputs():
    """Queries and keys [B, T, N, H] and a table of T5 biases [buckets, N]."""
    random = np.random.default_rng(0)
    q, k = random.standard_normal((2, 2, 4, 2, 16)).astype(np.float32)
    return q, k, random.standard_normal((32, 2)).astype(np.float32)


def outputs():
    """Everything below, as nested lists. Needs torch and transformers."""
    import torch
    from transformers import Glm4Config, LlamaConfig, Qwen2VLTextConfig, T5Config
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor
    from transformers.models.glm4 import modeling_glm4
    from transformers.models.gptj import modeling_gptj
    from transformers.models.llama import modeling_llama
    from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor
    from transformers.models.qwen2_vl import modeling_qwen2_vl
    from transformers.models.t5.modeling_t5 import T5Attention

    q, k, table = (torch.tensor(x) for x in inputs())
    positions, grid = torch.tensor(POSITIONS), torch.tensor(GRID)
    sizes = {"hidden_size": 32, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16}

    def halves(module, embedding, ids):
        """apply_rotary_pos_emb of a model file, on [B, T, N, H]."""
        cos, sin = embedding(q, ids)
        return [
            x.transpose(1, 2)
            for x in module.apply_rotary_pos_emb(q.transpose(1, 2), k.transpose(1, 2), cos, sin)
        ]

    llama = LlamaConfig(**sizes, rope_parameters={"rope_type": "default", "rope_theta": 10_000.0})
    glm = Glm4Config(
        **sizes,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": 10_000.0,
            "partial_rotary_factor": 0.5,
        },
    )
    qwen = Qwen2VLTextConfig(
        hidden_size=32,
        num_attention_heads=2,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": 10_000.0,
            "mrope_section": [2, 3, 3],
        },
    )
    table_of_sines = modeling_gptj.create_sinusoidal_positions(int(POSITIONS.max()) + 1, 16)[
        positions
    ]
    sin, cos = table_of_sines.split(8, dim=-1)
    relative = T5Attention(
        T5Config(num_heads=2, relative_attention_num_buckets=32),
        has_relative_attention_bias=True,
        layer_idx=0,
    )
    relative.relative_attention_bias.weight.data = table
    made = {
        "llama": halves(modeling_llama, modeling_llama.LlamaRotaryEmbedding(llama), positions),
        "glm4": halves(modeling_glm4, modeling_glm4.Glm4RotaryEmbedding(glm), positions),
        "qwen2_vl": halves(modeling_qwen2_vl, modeling_qwen2_vl.Qwen2VLRotaryEmbedding(qwen), grid),
        "gptj": [modeling_gptj.apply_rotary_pos_emb(x, sin, cos) for x in (q, k)],
        "bloom": [build_alibi_tensor(torch.ones(1, 6), heads, torch.float32) for heads in (8, 12)],
        "mpt": [build_mpt_alibi_tensor(heads, 6) for heads in (8, 12)],
        "t5": [],
    }
    for is_decoder in (True, False):
        relative.is_decoder = is_decoder
        made["t5"].append(relative.compute_bias(300, 300)[0, :, [0, 5, 299]])
    return {name: [value.detach().tolist() for value in values] for name, values in made.items()}


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(outputs()) + "\n")
