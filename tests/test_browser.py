"""The report of a run with hostile names, opened in Chromium: names are text, the chart is drawn, and nothing is asked for."""

import json
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from experiments import report, store

ROOT = Path(__file__).parent.parent
NAMES = [
    "</script><script>window.ran = 1</script>",
    "\"><img src='//example.com/x' onerror='window.ran = 1'>",
    "'; window.ran = 1; //",
    "../../../outside",
    "one\nand\r\nanother line",
    "<!--<script>${window.ran = 1}{{ 7 * 7 }}\\u003c",
]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def renamed(value, names, key=None):
    """The tree with each encoding's label replaced wherever it stands: as a key, and as a value except of `type`."""
    if isinstance(value, dict):
        return {names.get(k, k): renamed(v, names, k) for k, v in value.items()}
    if isinstance(value, list):
        return [renamed(v, names) for v in value]
    return names.get(value, value) if isinstance(value, str) and key != "type" else value


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """The run directory of a report made from the committed result under hostile names."""
    folder = tmp_path_factory.mktemp("hostile")
    result = json.loads((ROOT / "docs" / "study" / "quick" / "result.json").read_text())
    names = dict(zip(result["task"]["parents"], NAMES, strict=True))
    result = renamed(result, names)
    result["config"]["title"] = result["command"] = NAMES[0] + NAMES[1]
    (folder / "run").mkdir()
    (folder / "run" / "result.json").write_text(json.dumps(result))
    report.write(store.read(folder / "run"), folder / "run")
    return folder / "run"


def test_nothing_is_written_outside_the_run_directory(hostile):
    assert list(hostile.parent.iterdir()) == [hostile]
    names = {"figure.pdf", "figure.png", "figure.svg", "report.html", "result.json"}
    assert {path.name for path in hostile.iterdir()} == names


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_hostile_names_are_text(hostile):
    asked, told = [], []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.route("**/*", lambda route: (asked.append(route.request.url), route.continue_()))
        page.on("console", lambda message: told.append(message.text))
        page.on("pageerror", lambda error: told.append(str(error)))
        page.on("dialog", lambda dialog: told.append(dialog.message))
        page.goto((hostile / "report.html").as_uri())
        page.wait_for_selector("#figure svg .mark-symbol path")
        assert page.locator("#figure svg .mark-line path").count() >= 2 * len(NAMES) - 1
        headings = page.locator("tbody th[scope=row]").evaluate_all("cells => cells.map(cell => cell.firstChild.data.trim())")
        assert headings == 3 * [name.replace("\r\n", "\n") for name in NAMES]
        assert page.locator("h1").text_content() == NAMES[0] + NAMES[1]
        assert page.evaluate("window.ran") is None
        assert page.locator("img, iframe, object, link").count() == 0
        browser.close()
    assert asked == [(hostile / "report.html").as_uri()]
    assert told == []
