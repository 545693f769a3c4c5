"""Ctrl-C and SIGTERM: the first asks for an orderly end, the second ends at once."""

import os
import signal
import sys
import threading


def stop_event(status: int) -> threading.Event:
    """An event that the first signal sets; the second exits with `status`.

    A handler and not KeyboardInterrupt, which a callback inside JAX may swallow.
    """
    stop = threading.Event()

    def handle(_signal, _frame):
        if stop.is_set():
            os._exit(status)
        stop.set()
        print("Stopping in a few seconds, with all saved; once more to stop now.", file=sys.stderr, flush=True)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)
    return stop
