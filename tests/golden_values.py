"""The golden values, see golden/README.md."""

import json
from pathlib import Path

_FOLDER = Path(__file__).parent / "golden"
VALUES = json.loads((_FOLDER / "values.json").read_text())
MODELS = json.loads((_FOLDER / "rope_configs.json").read_text())
PEER_CONFIGS = json.loads((_FOLDER / "huggingface.json").read_text())
