"""Ctrl-C and SIGTERM: the first stops the run and saves it, the second ends it at once."""

import os
import signal
import sys
import threading


def stop_event(status: int) -> threading.Event:
    """An event that the first signal sets; the second exits with `status`.

    Not KeyboardInterrupt, which a callback inside JAX may swallow.
    """
    stop = threading.Event()

    def handle(_signal, _frame):
        if stop.is_set():
            os._exit(status)
        stop.set()
        message = "Saving, then stopping, in a few seconds. A second signal stops at once."
        print(message, file=sys.stderr, flush=True)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)
    return stop
