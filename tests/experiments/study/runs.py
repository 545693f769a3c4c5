"""Runs of a small experiment, in this process and in others."""

import os
import threading
from pathlib import Path

from watch import Watch

from experiments.config.load import load
from experiments.study.run_study import run_study
from tests.soak import trials

CONFIG = (
    trials.CONFIG.replace("features = 16", "features = 8\nlayers = 1")
    .replace("steps = 1000", "steps = 120")
    .replace("report_every = 20", "report_every = 4")
)
FINETUNE = (
    "finetune={multiple=2, steps=24, evaluate_at=[0, 10, 24], learning_rate=1e-3, batch=4,"
    " report_every=4}"
)
ROOT = Path(__file__).parents[3]
# as many devices as the tests have, so that compiled programs are shared with them
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_NUM_CPU_DEVICES": "2"}


def run(
    config, directory, *overrides, event=None, label="rope", step=0, watch=Watch, shown_by=None
):
    """Runs a config, perhaps to be stopped at an event; what was displayed, and the warnings.

    `shown_by` may wrap the display.
    """
    stop = threading.Event()
    watching = watch(stop, event, label, step)
    experiment = load(config, overrides)

    def display():
        return shown_by(watching) if shown_by else watching

    run_study(experiment, directory, display, "command", stop, watching.warnings.append)
    return watching
