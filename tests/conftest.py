"""Strict JAX for every test, and compiled programs shared between test processes and runs."""

import ctypes
import os
import sys
from importlib.metadata import version
from pathlib import Path

# tests run a program a few times only: optimisations and threads of LLVM cost more than they save.
# Without fusion emitters compiling takes half as long; jaxlib from 0.11 on has no such option
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
    + " --xla_cpu_use_fusion_emitters=false"
    * ([*map(int, version("jaxlib").split(".")[:2])] < [0, 11]),
)

import jax
import pytest

from experiments.training import compilation

compilation.use_cache()
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)  # many programs are small
jax.config.update("jax_num_cpu_devices", 2)  # for shard_map
jax.config.update("jax_numpy_rank_promotion", "raise")
MOST_MEMORY = 1.5e9  # bytes


@pytest.fixture(autouse=True)
def _forget_programs():
    """Compiled programs are dropped where a worker holds too much: it would keep gigabytes."""
    yield
    if sys.platform == "linux" and _memory() > MOST_MEMORY:
        jax.clear_caches()
        ctypes.CDLL(None).malloc_trim(0)  # glibc keeps free memory that lies between used


def _memory() -> int:
    """Bytes that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def key():
    return jax.random.key(0)
