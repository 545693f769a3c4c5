"""How programs are compiled: the options of XLA, and the persistent cache of compiled programs."""

import os
import platform
from pathlib import Path

import jax
import platformdirs

# compiler options of `jax.jit`, for short programs that take longer to optimise than to run
UNOPTIMISED = {"xla_backend_optimization_level": 0}


def use_cache():
    """Keeps compiled programs in the user's cache directory, in a folder for each version of JAX.

    JAX_COMPILATION_CACHE_DIR and JAX_ENABLE_COMPILATION_CACHE take precedence.
    """
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        name = f"jax-{jax.__version__}-{platform.machine()}"
        path = Path(platformdirs.user_cache_dir("jrope")) / name
        jax.config.update("jax_compilation_cache_dir", str(path))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
