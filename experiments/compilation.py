"""How programs are compiled: what is asked of XLA, and JAX's persistent cache of what it made."""

import os
import platform
from pathlib import Path

import jax
import platformdirs

# compiler options of `jax.jit`: for programs that run for a moment only, which take longer to compile well than to run
QUICKLY = {"xla_backend_optimization_level": 0}


def use_cache():
    """Keeps compiled programs between runs, in a directory of the user's own that is named by version and machine, unless
    JAX_COMPILATION_CACHE_DIR or JAX_ENABLE_COMPILATION_CACHE say otherwise."""
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        name = f"jax-{jax.__version__}-{platform.machine()}"
        jax.config.update("jax_compilation_cache_dir", str(Path(platformdirs.user_cache_dir("jrope")) / name))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
