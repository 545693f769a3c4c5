"""What docs/determinism.md says of bits: what is the same, and what does differ."""

import dataclasses
import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache
from runs import CONFIG, ROOT, run

from experiments.config.load import load
from experiments.config.plan import training_jobs
from experiments.study.directory import digest
from experiments.study.run_job import run_job
from experiments.study.training_loop import checkpoint_manager
from experiments.training.train import init_state, train_steps


@pytest.fixture(scope="module")
def rope(config):
    """The job of `rope`."""
    return training_jobs(load(config))[1]


def trained(job, seeds, *chunks):
    """The state after these numbers of steps, and the mean loss over all of them."""
    seeds, losses = jnp.array(seeds, jnp.uint32), None
    state = init_state(job.train, seeds)
    for steps in chunks:
        state, losses = train_steps(job.train, job.encoding, (), seeds, state, steps)
    return state, losses


def are_same(a, b):
    return all(map(np.array_equal, jax.tree.leaves(a), jax.tree.leaves(b)))


as_trained = pytest.mark.parametrize("seeds", [[5], [0, 5]], ids=["alone", "vmapped"])


@as_trained
def test_any_division_into_chunks_gives_the_same_bits(rope, seeds):
    whole = trained(rope, seeds, 40)
    assert are_same(whole, trained(rope, seeds, 1, 10, 29))
    assert are_same(whole, trained(rope, seeds, *[1] * 40))
    assert not are_same(whole, trained(rope, seeds, 39))


def state_and_lines(job, directory):
    """The last state of a job, and the lines of its tables."""
    checkpoints = checkpoint_manager(job, directory, print)
    folder, names = job.folder_in(directory), ("metrics.jsonl", "results.jsonl")
    return checkpoints.load(120), *((folder / name).read_text().splitlines() for name in names)


@pytest.fixture(scope="module")
def with_others(rope, whole):
    owner = json.loads((whole / "manifest.json").read_text())["config_sha256"]
    return state_and_lines(dataclasses.replace(rope, config_sha256=owner), whole)


def test_an_encoding_has_the_same_bits_without_others(with_others, tmp_path):
    """Metrics, results and the trained weights, of configs that differ in what else they train."""
    config = CONFIG.replace('[encodings.learned]\ntype = "learned"\n', "")
    assert config != CONFIG
    (tmp_path / "alone.toml").write_text(config)
    run(tmp_path / "alone.toml", tmp_path / "run")
    experiment = load(tmp_path / "alone.toml")
    (rope,) = training_jobs(experiment)
    rope = dataclasses.replace(rope, config_sha256=digest(experiment.record()))
    alone = state_and_lines(rope, tmp_path / "run")
    assert are_same(alone[0], with_others[0])
    assert alone[1:] == with_others[1:]


def test_a_seed_has_the_same_bits_without_others(rope, with_others, tmp_path):
    """Metrics and the trained weights: on CPUs no program trains two seeds."""
    (tmp_path / "encodings").mkdir()
    job = dataclasses.replace(rope, seeds=(5,), evaluations=rope.evaluations[:1])
    assert {(row["encoding"], row["seed"]) for row in run_job(job, tmp_path)} == {
        ("rope", 5),
        ("pi", 5),
    }
    state, metrics, _ = state_and_lines(job, tmp_path)
    assert are_same(state, jax.tree.map(lambda leaf: leaf[1:], with_others[0]))
    assert metrics == [line for line in with_others[1] if json.loads(line)["seed"] == 5]


def test_vmapped_seeds_start_the_same_as_one_alone_and_drift_apart(rope):
    for steps, same in ((1, True), (200, False)):
        both, one = trained(rope, [0, 5], steps), trained(rope, [5], steps)
        second = jax.tree.map(lambda leaf: leaf[1:], both)
        assert are_same(second[0].params, one[0].params) == same
        np.testing.assert_allclose(second[1], one[1], rtol=1e-4)


@as_trained
def test_a_cached_program_gives_the_same_bits(rope, seeds, tmp_path):
    hits = []

    def listen(event, **_):
        hits.append(event == "/jax/compilation_cache/cache_hits")

    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: getattr(jax.config, name) for name in names}
    jax.monitoring.register_event_listener(listen)
    try:
        found, states = [], []
        compilation_cache.reset_cache()
        for name, value in zip(names, (str(tmp_path), 0), strict=True):
            jax.config.update(name, value)
        for _ in range(2):
            hits.clear()
            jax.clear_caches()  # of this process, not the one on disk
            states.append(trained(rope, seeds, 40))
            found.append(any(hits))
    finally:
        jax.monitoring.unregister_event_listener(listen)
        for name, value in before.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()
    assert found == [False, True]
    assert are_same(*states)


def test_the_page_names_tests_that_exist():
    page = (ROOT / "docs" / "determinism.md").read_text()
    named = set(re.findall(r"`(test_\w+)`", page))
    files = (ROOT / "tests").rglob("test_*.py")
    lines = (re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE) for path in files)
    assert len(named) > 10
    assert named <= {name for names in lines for name in names}
