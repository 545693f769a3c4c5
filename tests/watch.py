"""A display for tests."""


class Watch:
    """A display that shows nothing, and sets `stop` once `event` comes for `label`."""

    def __init__(self, stop, event=None, label="rope", step=0):
        self.stop, self.wanted, self.events = stop, (event, label, step), []

    def _see(self, event, label, step=0):
        self.events.append((event, label, step))
        wanted, whose, least = self.wanted
        if event == wanted and label == whose and step >= least:
            self.stop.set()

    def begin(self, label, steps):
        self._see("begin", label)

    def step(self, label, done, loss):
        self._see("step", label, done)

    def evaluating(self, label, what):
        self._see("evaluating", label)

    def end(self, label):
        self._see("end", label)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass
