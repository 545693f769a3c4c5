"""What docs/determinism.md says of bits: what is the same, and that what is told apart does differ."""

import json
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache
from test_resume import CONFIG, go

from experiments import store, train
from experiments.config import load
from experiments.run import checkpoint

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    path = tmp_path_factory.mktemp("config") / "c.toml"
    path.write_text(CONFIG)
    return load.load(path)


def advanced(experiment, seeds, *chunks):
    """The state after these chunks of steps of `rope`, and the mean loss over all of them."""
    trainer, encoding = experiment.trainer("rope"), experiment.acting("rope", 1)
    seeds, losses = jnp.array(seeds, jnp.uint32), None
    state = train.start(trainer, seeds)
    for steps in chunks:
        state, losses = train.advance(trainer, encoding, seeds, state, steps)
    return state, losses


def same(a, b):
    return all(map(np.array_equal, jax.tree.leaves(a), jax.tree.leaves(b)))


as_trained = pytest.mark.parametrize("seeds", [[5], [0, 5]], ids=["alone", "vmapped"])


@as_trained
def test_any_division_into_chunks_gives_the_same_bits(experiment, seeds):
    whole = advanced(experiment, seeds, 40)
    assert same(whole, advanced(experiment, seeds, 1, 10, 29))
    assert same(whole, advanced(experiment, seeds, *[1] * 40))
    assert not same(whole, advanced(experiment, seeds, 39))


@as_trained
def test_a_cached_program_gives_the_same_bits(experiment, seeds, tmp_path):
    hits = []

    def listen(event, **_):
        hits.append(event == "/jax/compilation_cache/cache_hits")

    before = jax.config.jax_compilation_cache_dir, jax.config.jax_persistent_cache_min_compile_time_secs
    jax.monitoring.register_event_listener(listen)
    try:
        found, states = [], []
        compilation_cache.reset_cache()
        jax.config.update("jax_compilation_cache_dir", str(tmp_path))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        for _ in range(2):
            hits.clear()
            jax.clear_caches()  # of this process, but not the one on disk
            states.append(advanced(experiment, seeds, 40))
            found.append(any(hits))
    finally:
        jax.monitoring.unregister_event_listener(listen)
        jax.config.update("jax_compilation_cache_dir", before[0])
        jax.config.update("jax_persistent_cache_min_compile_time_secs", before[1])
        compilation_cache.reset_cache()
    assert found == [False, True]
    assert same(*states)


def trained(folder, config, number):
    """The last state and the tables of `rope`, the encoding of this number, of a run of this config."""
    path = folder.with_suffix(".toml")
    path.write_text(config)
    go(path, folder)
    experiment, own = load.load(path), folder / "encodings" / number
    state = train.start.eval_shape(experiment.trainer("rope"), jnp.array(experiment.seeds, jnp.uint32))
    state = checkpoint.load(own, 120, state, f"{store.digest(experiment.record())}/{number}")
    return state, *((own / f"{table}.jsonl").read_text().splitlines() for table in ("metrics", "results"))


@pytest.fixture(scope="module")
def beside(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("beside") / "run", CONFIG, "1")


def test_an_encoding_alone_is_what_it_is_beside_others(beside, tmp_path):
    """Metrics, results and the trained weights, of two runs whose configs differ in what else they train."""
    config = CONFIG.replace('[encodings.learned]\ntype = "learned"\n', "")
    assert config != CONFIG
    alone = trained(tmp_path / "run", config, "0")
    assert same(alone[0], beside[0])
    assert alone[1:] == beside[1:]


def test_a_seed_alone_is_what_it_is_beside_others(beside, tmp_path):
    """Metrics and the trained weights: on CPUs, where no program trains two."""
    config = CONFIG.replace("seeds = [0, 5]", "seeds = [5]")
    assert config != CONFIG
    alone = trained(tmp_path / "run", config, "1")
    assert same(alone[0], jax.tree.map(lambda leaf: leaf[1:], beside[0]))
    assert alone[1] == [row for row in beside[1] if json.loads(row)["seed"] == 5]


def test_vmapped_seeds_and_one_alone_begin_alike_and_drift_apart(experiment):
    for steps, alike in ((1, True), (200, False)):
        both, one = advanced(experiment, [0, 5], steps), advanced(experiment, [5], steps)
        second = jax.tree.map(lambda leaf: leaf[1:], both)
        assert same(second[0].params, one[0].params) == alike
        np.testing.assert_allclose(second[1], one[1], rtol=1e-4)


def test_the_page_names_tests_that_exist():
    page = (ROOT / "docs" / "determinism.md").read_text()
    named = set(re.findall(r"`(test_\w+)`", page))
    files = (ROOT / "tests").glob("test_*.py")
    defined = {name for path in files for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)}
    assert len(named) > 10
    assert named <= defined
