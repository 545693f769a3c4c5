"""What is shipped: the wheel has the library and its license, and nothing else."""

import tomllib
import zipfile
from pathlib import Path

from hatchling import build

ROOT = Path(__file__).parents[2]


def test_the_wheel_contains_only_the_library(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    with zipfile.ZipFile(tmp_path / build.build_wheel(str(tmp_path))) as wheel:
        names = set(wheel.namelist())
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        text = wheel.read(metadata).decode()
    library = {name for name in names if ".dist-info/" not in name}
    files = (path for path in (ROOT / "jrope").rglob("*") if path.is_file())
    wanted = {str(path.relative_to(ROOT)) for path in files if path.suffix != ".pyc"}
    assert library == wanted
    assert "jrope/py.typed" in library
    assert metadata.replace("METADATA", "licenses/LICENSE") in names
    assert "Requires-Dist: jax" in text
    assert "altair" not in text


def test_versions_agree():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text()
