"""Standard output and standard error that end no command: not by a character, not by a pipe."""

import codecs
import errno
import io
import sys
from typing import Any

ERRORS = "replace with ascii"  # the name of `_replace` among the error handlers of Python
_ASCII = {"–": "-", "—": "-", "×": "x", "…": "..."}


def _replace(error: UnicodeError) -> tuple[str, int]:
    """ASCII that reads the same in place of what an encoding lacks, or else an escape."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    written = (_ASCII.get(c) or c.encode("unicode_escape").decode() for c in lacking)
    return "".join(written), error.end


codecs.register_error(ERRORS, _replace)


class Output(io.RawIOBase):
    """Writes to a text stream's file until that fails. It drops the rest, and keeps the `error`."""

    def __init__(self, stream: Any):
        super().__init__()
        self.stream = stream  # which would close its file if nobody kept it
        self.raw = getattr(stream.buffer, "raw", stream.buffer)  # Python -u has no buffer
        self.error: OSError | None = None

    def lost(self) -> str:
        """Why text was lost that somebody waits for: a reader who leaves a pipe has enough."""
        if self.error is None or self.error.errno == errno.EPIPE:
            return ""
        return self.error.strerror or str(self.error)

    def write(self, data: Any, /) -> int | None:
        if self.error is None:
            try:
                return self.raw.write(data)
            except OSError as error:
                self.error = error
        return len(data)

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self.raw.isatty()

    def fileno(self) -> int:
        return self.raw.fileno()


def protect() -> Output | None:
    """Replaces sys.stdout and sys.stderr; returns where the first of them now writes to.

    None if there is no standard output.
    """
    stdout, sys.stdout = _protected(sys.stdout)
    _, sys.stderr = _protected(sys.stderr)
    return stdout


def _protected(stream: Any) -> tuple[Output | None, Any]:
    if not hasattr(stream, "buffer"):  # closed from the start, or no file
        return None, stream
    stream.flush()
    output = Output(stream)
    options = {"encoding": stream.encoding, "errors": ERRORS}
    is_line_buffered = stream.line_buffering or output.isatty()
    text = io.TextIOWrapper(io.BufferedWriter(output), line_buffering=is_line_buffered, **options)
    return output, text
