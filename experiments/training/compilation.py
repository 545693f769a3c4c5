"""How programs are compiled: the options of XLA, and the persistent cache of compiled programs."""

import errno
import os
import platform
import shutil
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import jax
import platformdirs

# compiler options of `jax.jit`, for short programs that take longer to optimise than to run
UNOPTIMISED = {"xla_backend_optimization_level": 0}
MIN_FREE = 2**26  # bytes on the disk of the cache; the programs of a config take a part of them


def use_cache(warn: Callable[[str], None] = warnings.warn):
    """Keeps compiled programs in the user's cache directory, in a folder for each version of JAX.

    JAX_COMPILATION_CACHE_DIR and JAX_ENABLE_COMPILATION_CACHE take precedence. If nothing can be
    kept there, `warn` receives the reason, and programs are compiled again in each process.
    """
    if not jax.config.jax_enable_compilation_cache:  # pyright: ignore[reportAttributeAccessIssue]
        return
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    given = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    name = f"jax-{jax.__version__}-{platform.machine()}"
    path = given or f"{platformdirs.user_cache_dir('jrope')}/{name}"
    try:
        if "://" not in path:  # else it is storage in a network, which JAX knows
            _check_is_writable(Path(path).expanduser())
    except (OSError, RuntimeError) as error:  # RuntimeError if there is no home directory
        reason = getattr(error, "strerror", None) or error
        remedy = "set JAX_COMPILATION_CACHE_DIR to a folder that can be written"
        warn(f"{path}: {reason}: compiled programs are not kept; {remedy}")
        jax.config.update("jax_enable_compilation_cache", False)
    else:
        if not given:
            jax.config.update("jax_compilation_cache_dir", path)


def _check_is_writable(path: Path):
    """Raises OSError if the folder cannot take new programs; makes it if it is not there."""
    path.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=path):
        if shutil.disk_usage(path).free < MIN_FREE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
