"""What the reference lists, read from the library: each file says it once.

Sphinx gets this by the directives of conf.py, and tests/test_docs.py without Sphinx.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from types import ModuleType

import jrope
from experiments.show import docstrings

TYPES = {
    "encodings": jrope.encoding_types,
    "scalings": jrope.scaling_types,
    "axes": jrope.axes_types,
}
CLASS_OPTIONS = """   :members:
   :inherited-members: Encoding, Module, tuple
   :special-members: __call__"""


def table(kind: str) -> str:
    """A Markdown table of the encodings, scalings or axes that a config can name."""
    rows = ["| in a config | class | | paper |", "|---|---|---|---|"]
    for name, cls in TYPES[kind]().items():
        papers = docstrings.about(cls).papers
        paper = f"[{papers[0]}](https://arxiv.org/abs/{papers[0]})" if papers else ""
        link = f"{{py:obj}}`jrope.{cls.__name__}`"
        rows.append(f"| `{name}` | {link} | {docstrings.summary(cls)} | {paper} |")
    return "\n".join(rows)


def files(name: str) -> Iterator[str]:
    """A section for each file of a package: its docstring, and all that it exports."""
    package = importlib.import_module(name)
    for found in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{name}.{found.name}")
        title, _, rest = inspect.getdoc(module).partition("\n\n")
        yield f"## {title.rstrip('.')}\n\n{rest}\n\n{entries(module.__name__)}"


def entries(name: str) -> str:
    """The entry of each function and class that a file exports, for autodoc."""
    lines = []
    for path, value in exported(importlib.import_module(name)).items():
        if inspect.isclass(value):
            options = "" if issubclass(value, tuple) else CLASS_OPTIONS
            lines += [f".. autoclass:: {path}", options, ""]
        else:
            lines += [f".. autofunction:: {path}", ""]
    return "\n".join(["```{eval-rst}", *lines, "```"])


def exported(module: ModuleType) -> dict[str, object]:
    """What a file exports, under the shortest name that users import it by."""
    own = [
        name
        for name, value in vars(module).items()
        if getattr(value, "__module__", None) == module.__name__
        and (inspect.isclass(value) or inspect.isfunction(value))
        and not name.startswith("_")
    ]
    found = {}
    for name in getattr(module, "__all__", own):
        value = getattr(module, name)
        is_flat = getattr(jrope, name, None) is value
        found[f"jrope.{name}" if is_flat else f"{module.__name__}.{name}"] = value
    return found
