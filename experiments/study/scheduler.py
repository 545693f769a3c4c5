"""Runs jobs on this machine, side by side on its cores. Nothing else says where a job runs."""

from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

from experiments.study.directory import cores
from experiments.study.hooks import Hooks, Stopped
from experiments.study.result import Row
from experiments.study.run_job import run_job
from experiments.training.job import TrainingJob


def run_jobs(jobs: Sequence[TrainingJob], directory: Path, hooks: Hooks) -> list[Row]:
    """The rows of all jobs, done in threads, each after its parent.

    A step of a small model keeps about one core busy, so jobs and the seeds of each share only the
    cores. After an error or a stop, the jobs that have begun save what they have.
    """
    # as many at once as leave no core idle at the end: three jobs run side by side on two cores,
    # since their seeds share them
    at_once = -(-len(jobs) // max(1, len(jobs) // cores()))
    by_label = {job.label: job for job in jobs}
    started: dict[Future[list[Row]], TrainingJob] = {}
    with ThreadPoolExecutor(cores()) as seeds, ThreadPoolExecutor(at_once) as pool:
        hooks = replace(hooks, cores=seeds)

        def start(parent: str | None) -> set[Future[list[Row]]]:
            ready = [job for job in jobs if job.parent == parent]
            ready.sort(key=_size, reverse=True)  # the last to start should not be the longest
            new = {
                pool.submit(run_job, job, directory, hooks, by_label.get(parent or "")): job
                for job in ready
            }
            started.update(new)
            return set(new)

        waiting = start(None)
        while waiting:
            # the timeout lets Python run signal handlers: a signal that reached another thread
            # does not end this wait
            done, waiting = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
            for future in done:
                if future.cancelled() or future.exception():
                    hooks.stop.set()
                    for other in waiting:
                        other.cancel()
                elif not hooks.stop.is_set():
                    waiting |= start(started[future].label)
    errors = [e for future in started if not future.cancelled() and (e := future.exception())]
    for error in sorted(errors, key=lambda error: isinstance(error, Stopped)):
        raise error
    if len(started) < len(jobs):
        raise Stopped
    return [row for future in started for row in future.result()]


def _size(job: TrainingJob) -> tuple[int, int]:
    return job.train.steps, len(job.evaluations[0].encodings)
