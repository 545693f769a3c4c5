"""Where compiled programs are kept, and what is said where they cannot be."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from experiments.training import compilation

REMEDY = "set JAX_COMPILATION_CACHE_DIR to a folder that can be written"


@pytest.fixture
def use_cache(monkeypatch):
    """What `use_cache` sets in JAX and says, without setting it."""

    def use(home, *, given=None, enabled=True):
        for name in ("XDG_CACHE_HOME", "JAX_COMPILATION_CACHE_DIR"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HOME", str(home))
        if given is not None:
            monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(given))
        settings, said = {}, []
        config = SimpleNamespace(jax_enable_compilation_cache=enabled, update=settings.__setitem__)
        monkeypatch.setattr(compilation, "jax", SimpleNamespace(config=config, __version__="0"))
        compilation.use_cache(said.append)
        return settings, said

    return use


def test_the_cache_is_in_the_home_unless_it_is_given(use_cache, tmp_path):
    settings, said = use_cache(tmp_path)
    folder = Path(settings["jax_compilation_cache_dir"])
    assert folder.is_dir()
    assert folder.is_relative_to(tmp_path)
    assert list(folder.iterdir()) == said == []
    settings, said = use_cache("/dev/null", given=tmp_path / "given")
    assert (tmp_path / "given").is_dir()
    assert "jax_compilation_cache_dir" not in settings  # JAX reads it from the environment
    assert use_cache(tmp_path, given="gs://bucket/programs")[1] == []
    assert use_cache("/dev/null", enabled=False) == ({}, [])


@pytest.mark.parametrize("given", [None, "/dev/null/given"])
def test_a_home_or_a_folder_that_cannot_be_written(use_cache, given):
    settings, said = use_cache("/dev/null", given=given)
    assert settings["jax_enable_compilation_cache"] is False
    (message,) = said
    assert message.startswith(given or "/dev/null/")
    assert message.endswith(f": Not a directory: compiled programs are not kept; {REMEDY}")


def test_a_full_disk(use_cache, tmp_path, monkeypatch):
    full = SimpleNamespace(free=2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: full)
    settings, (message,) = use_cache(tmp_path)
    assert settings["jax_enable_compilation_cache"] is False
    assert message.endswith(f"No space left on device: compiled programs are not kept; {REMEDY}")


def test_no_home_at_all(use_cache, monkeypatch):
    monkeypatch.setattr(compilation.platformdirs, "user_cache_dir", lambda _: "~/.cache/jrope")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    settings, (message,) = use_cache("")
    assert settings["jax_enable_compilation_cache"] is False
    assert message.startswith("~/.cache/jrope/jax-0-")
    assert "home directory" in message
