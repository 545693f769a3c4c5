"""JAX's fused attention: cuDNN's on NVIDIA GPUs, a Pallas kernel on TPUs.

Both are FlashAttention, Dao et al. 2022, arXiv:2205.14135: exact, differentiable, without an array
of all scores. They take no bias that is made a block at a time: attention with a bias uses
`jrope.attention.blocked` on every backend.
"""

import jax

HALF = ("bfloat16", "float16")
AMPERE = 8.0  # the first compute capability that runs cuDNN's kernel
LANES = 128  # of a TPU: its kernel takes whole blocks of so many queries and keys


def fused_attention(q, k, v, *, causal: bool, scale: float) -> jax.Array | None:
    """`softmax(scale q k^T) v` of q [B, T, N, H], k and v [B, S, K, H]; None if no kernel fits."""
    device = jax.devices()[0]
    (_, length, heads, dim), (_, count, groups, _) = q.shape, k.shape
    if (causal and length != count) or not q.dtype == k.dtype == v.dtype:
        return None
    if (
        device.platform == "gpu"
        and _capability(device) >= AMPERE
        and q.dtype.name in HALF
        and dim % 8 == 0
        and dim <= 128
    ):
        return jax.nn.dot_product_attention(
            q, k, v, scale=scale, is_causal=causal, implementation="cudnn"
        )
    if device.platform == "tpu" and heads == groups and length % LANES == count % LANES == 0:
        # imported here: it is slow, and exists for TPUs only
        from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention

        q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
        return flash_attention(q, k, v, causal=causal, sm_scale=scale).swapaxes(1, 2)
    return None


def _capability(device) -> float:
    """NVIDIA's compute capability; 0 for other GPUs, which have no such number."""
    try:
        return float(getattr(device, "compute_capability", 0))
    except ValueError:
        return 0.0
