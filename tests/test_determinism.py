"""What docs/determinism.md says of bits: what is the same, and that what is told apart does differ."""

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


def test_any_division_into_chunks_gives_the_same_bits(experiment):
    whole = advanced(experiment, [0, 5], 40)
    assert same(whole, advanced(experiment, [0, 5], 1, 10, 29))
    assert same(whole, advanced(experiment, [0, 5], *[1] * 40))
    assert not same(whole, advanced(experiment, [0, 5], 39))


def test_a_cached_program_gives_the_same_bits(experiment, tmp_path):
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
            states.append(advanced(experiment, [0, 5], 40))
            found.append(any(hits))
    finally:
        jax.monitoring.unregister_event_listener(listen)
        jax.config.update("jax_compilation_cache_dir", before[0])
        jax.config.update("jax_persistent_cache_min_compile_time_secs", before[1])
        compilation_cache.reset_cache()
    assert found == [False, True]
    assert same(*states)


def test_an_encoding_alone_is_what_it_is_beside_others(tmp_path):
    """Metrics, results and the trained weights, of two runs whose configs differ in what else they train."""
    alone = CONFIG.replace('[encodings.learned]\ntype = "learned"\n', "")
    assert alone != CONFIG
    kept = []
    for name, text, folder in (("alone", alone, "0"), ("beside", CONFIG, "1")):
        path = tmp_path / f"{name}.toml"
        path.write_text(text)
        go(path, tmp_path / name)
        experiment, own = load.load(path), tmp_path / name / "encodings" / folder
        state = train.start.eval_shape(experiment.trainer("rope"), jnp.array(experiment.seeds, jnp.uint32))
        owner = f"{store.digest(experiment.record())}/{folder}"
        weights = checkpoint.load(own, 120, state, owner)
        kept.append((weights, [(own / f"{table}.jsonl").read_bytes() for table in ("metrics", "results")]))
    assert same(kept[0][0], kept[1][0])
    assert kept[0][1] == kept[1][1]


def test_seeds_side_by_side_and_one_alone_begin_alike_and_drift_apart(experiment):
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
