"""One small experiment, run once: tests of runs compare with it and share its programs."""

import pytest
from runs import CONFIG, FINETUNE, run


@pytest.fixture(autouse=True, scope="module")
def _forget_programs():
    """Programs are kept for the next module of this folder, and dropped after any other module."""


@pytest.fixture(scope="session")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("study") / "small.toml"
    path.write_text(CONFIG)
    return path


@pytest.fixture(scope="session")
def whole(config):
    """The directory of an uninterrupted run."""
    directory = config.parent / "whole"
    assert run(config, directory).warnings == []
    return directory


@pytest.fixture(scope="session")
def tuned(config):
    """The directory of an uninterrupted run in which `pi` is fine-tuned from the end of `rope`."""
    directory = config.parent / "tuned"
    run(config, directory, FINETUNE)
    return directory
