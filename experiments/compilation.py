"""JAX's persistent compilation cache, in a directory of the user's own that is named by version and machine."""

import os
import platform
from pathlib import Path

import jax
import platformdirs


def use_cache():
    """Keeps compiled programs between runs, unless JAX_COMPILATION_CACHE_DIR or JAX_ENABLE_COMPILATION_CACHE say otherwise."""
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        name = f"jax-{jax.__version__}-{platform.machine()}"
        jax.config.update("jax_compilation_cache_dir", str(Path(platformdirs.user_cache_dir("jrope")) / name))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
