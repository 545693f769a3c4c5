"""Strict JAX for every test, and compiled programs shared between test processes and runs."""

import jax
import pytest

from experiments import compilation

compilation.use_cache()
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)  # tests compile many small programs
jax.config.update("jax_num_cpu_devices", 2)  # for shard_map
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def key():
    return jax.random.key(0)
