"""What training and evaluation need of a model."""

from typing import Any, Protocol

import jax

import jrope


class Model(Protocol):
    """A model's config: a frozen, hashable dataclass, whose methods are pure functions.

    `jrope.transformer.TransformerConfig` is one. Parameters are any pytree of arrays.
    """

    @property
    def vocabulary(self) -> int:
        """Number of token ids."""
        ...

    @property
    def encoding(self) -> jrope.Encoding:
        """Acts in the model. Its parameters are among the model's."""
        ...

    @property
    def sizes(self) -> dict[str, int]:
        """The arguments of `Encoding.init`: features, num_heads, head_dim and num_layers."""
        ...

    def init(self, key: jax.Array) -> Any:
        """Fresh parameters, the same for the same key."""
        ...

    def apply(
        self,
        params: Any,
        tokens: jax.Array,
        positions: jax.Array,
        *,
        encoding: jrope.Encoding | None = None,
    ) -> jax.Array:
        """Logits [B, T, vocabulary] of the next token.

        Args:
          tokens: [B, T].
          positions: ids [T] or [B, T].
          encoding: used in place of the model's own, with the same parameters.
        """
        ...
