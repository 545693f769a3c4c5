"""A display for tests."""

from experiments.study.hooks import Display


class Watch(Display):
    """Records the events, and sets `stop` when `event` comes for `label`, from `step` on."""

    def __init__(self, stop, event=None, label="rope", step=0):
        self.stop, self.wanted = stop, (event, label, step)
        self.events, self.warnings = [], []

    def _record(self, event, label, step=0):
        self.events.append((event, label, step))
        wanted, its_label, first = self.wanted
        if event == wanted and label == its_label and step >= first:
            self.stop.set()

    def begin(self, label, steps):
        self._record("begin", label)

    def step(self, label, done, loss):
        self._record("step", label, done)

    def evaluating(self, label, what):
        self._record("evaluating", label)

    def end(self, label):
        self._record("end", label)
