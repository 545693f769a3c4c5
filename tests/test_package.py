"""What is shipped: the wheel has the library and its license, and nothing else."""

import tomllib
import zipfile
from pathlib import Path

from hatchling import build

ROOT = Path(__file__).parent.parent


def test_the_wheel_contains_the_library_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    with zipfile.ZipFile(tmp_path / build.build_wheel(str(tmp_path))) as wheel:
        names = set(wheel.namelist())
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        text = wheel.read(metadata).decode()
    library = {name for name in names if ".dist-info/" not in name}
    assert library == {f"jrope/{path.name}" for path in (ROOT / "jrope").iterdir() if path.is_file()}
    assert "jrope/py.typed" in library
    assert metadata.replace("METADATA", "licenses/LICENSE") in names
    assert "Requires-Dist: jax" in text
    assert "altair" not in text


def test_versions_agree():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text()
