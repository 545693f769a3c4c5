"""Reports opened in Chromium: names are text, charts are drawn, controls act, and nothing is asked for."""

import json
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from experiments import report, results, store

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
    names |= {f"{name}.{ending}" for name in ("along", "bands") for ending in ("svg", "pdf")}
    assert {path.name for path in hostile.iterdir()} == names


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def opened(browser):
    """Opens a report in a page, and has it checked in the end that nothing was asked for and nothing went wrong."""
    asked, told, contexts = [], [], []

    def open_report(path, **options):
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.route("**/*", lambda route: (asked.append(route.request.url), route.continue_()))
        page.on("console", lambda message: told.append(message.text))
        page.on("pageerror", lambda error: told.append(str(error)))
        page.on("dialog", lambda dialog: told.append(dialog.message))
        page.goto(path.as_uri())
        page.wait_for_selector("#figure svg .mark-symbol path")
        page.wait_for_selector("#explored-chart svg .mark-symbol path")
        return page

    yield open_report
    for context in contexts:
        context.close()
    assert len(asked) == len(contexts)
    assert all(url.startswith("file:") and url.endswith("/report.html") for url in asked)
    assert told == []


def test_hostile_names_are_text(hostile, opened):
    page = opened(hostile / "report.html")
    assert page.locator("#figure svg .mark-line path").count() >= 2 * len(NAMES) - 1
    headings = page.locator("tbody th[scope=row]").evaluate_all("cells => cells.map(cell => cell.firstChild.data.trim())")
    assert headings == 3 * [name.replace("\r\n", "\n") for name in NAMES]
    assert page.locator("h1").text_content() == NAMES[0] + NAMES[1]
    assert page.evaluate("window.ran") is None
    assert page.locator("img, iframe, object, link").count() == 0


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """The report of the committed result, and that result."""
    folder = tmp_path_factory.mktemp("quick")
    result = store.read(ROOT / "docs" / "study" / "quick")
    return report.write(result, ROOT / "docs" / "study" / "quick", folder), result


def test_headings_sort_the_table(quick, opened):
    path, result = quick
    page = opened(path)
    table = page.locator("table").first
    multiple = max(results.multiples(result))

    def column():
        return table.locator("tbody th[scope=row]").evaluate_all("cells => cells.map(cell => cell.firstChild.data.trim())")

    cells = {label: results.cell(result, label, multiple, "accuracy") for label in results.labels(result)}
    known = sorted((label for label in cells if cells[label]), key=lambda label: cells[label].mean)
    unknown = [label for label in cells if not cells[label]]
    heading = table.locator("thead th").last
    heading.get_by_role("button").focus()
    page.keyboard.press("Enter")  # as the keyboard does it
    assert (column(), heading.get_attribute("aria-sort")) == (known + unknown, "ascending")
    heading.get_by_role("button").click()
    assert (column(), heading.get_attribute("aria-sort")) == (known[::-1] + unknown, "descending")
    table.locator("thead th").first.get_by_role("button").click()
    assert column() == sorted(cells)
    assert heading.get_attribute("aria-sort") is None


def test_the_legend_singles_out_and_a_mark_tells_its_values(quick, opened):
    path, result = quick
    page = opened(path)
    chart = page.locator("#explored-chart")
    lines = chart.locator(".mark-line path")

    def opacities():
        return sorted(set(lines.evaluate_all("paths => paths.map(path => +(path.getAttribute('opacity') ?? 1))")))

    assert opacities() == [1]
    chart.locator(".role-legend-label text", has_text="yarn").click()
    page.wait_for_function("document.querySelector('#explored-chart .mark-line path[opacity=\"0.04\"]')")
    assert opacities() == [0.04, 1]
    # the legend lies in its own group; the last mark drawn at 1x is on top of the others there
    cell = results.cell(result, "rope", 8, "accuracy")
    mark = chart.locator(".mark-symbol path[aria-label*='encoding: rope']").last
    mark.hover(force=True)
    page.wait_for_selector("#vg-tooltip-element.visible")
    told = page.locator("#vg-tooltip-element").inner_text()
    for value in (cell.mean, cell.low, cell.high):
        assert f"{value:.3f}" in told


def test_the_controls_change_the_chart(quick, opened):
    path, result = quick
    page = opened(path)
    chart = page.locator("#explored-chart")

    def after(action):
        before = chart.inner_html()
        action()
        page.wait_for_function("before => document.querySelector('#explored-chart').innerHTML !== before", arg=before)
        page.wait_for_selector("#explored-chart svg .mark-symbol path")
        return chart

    titles = after(lambda: page.get_by_role("radio", name="Loss (nats per answer)").check()).locator(".role-axis-title text")
    assert "loss (nats per answer)" in titles.all_text_contents()
    assert "token accuracy" not in titles.all_text_contents()
    after(lambda: page.get_by_role("radio", name="linear").check())
    assert "for a linear scale" in chart.locator("[aria-label^='X-axis']").get_attribute("aria-label")
    marks = chart.locator(".mark-symbol path[aria-label*='encoding: rope']")
    assert marks.count() == len(results.multiples(result))
    after(lambda: page.get_by_role("checkbox", name="rope", exact=True).uncheck())
    assert marks.count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_nothing_is_wider_than_the_page(quick, opened, scheme):
    page = opened(quick[0], viewport={"width": 390, "height": 844}, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    ink, paper = page.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.documentElement).backgroundColor]"
    )
    assert ink != paper


def test_every_chart_has_words_for_who_does_not_see_it(quick, opened):
    page = opened(quick[0])
    told = page.locator(".chart").evaluate_all("charts => charts.map(chart => [chart.role, chart.ariaLabel])")
    assert len(told) >= 4
    for role, words in told:
        assert role in ("img", "graphics-document")
        assert words.startswith("The chosen score against length") or words in report.CAPTIONS.values()
