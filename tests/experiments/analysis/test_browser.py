"""Reports in Chromium: names are text, charts are drawn, controls act, and nothing is requested."""

import json
import shutil

import pytest
from playwright.sync_api import sync_playwright

from experiments.analysis import figures, report
from experiments.analysis.stored import STUDY, stored
from experiments.analysis.table import Results

QUICK = STUDY / "quick"
NAMES = [
    "</script><script>window.ran = 1</script>",
    "\"><img src='//example.com/x' onerror='window.ran = 1'>",
    "'; window.ran = 1; //",
    "../../../outside",
    "one\nand\r\nanother line",
    "<!--<script>${window.ran = 1}{{ 7 * 7 }}\\u003c",
]
BROWSERS = map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
CHROMIUM = next(filter(None, BROWSERS), None)
LABELS = "cells => cells.map(cell => cell.firstChild.data.trim())"
MARK = "#explorable-chart svg .mark-symbol path"


def renamed(value, names, key=None):
    """The tree with labels replaced wherever they are: as keys, and as values except of `type`."""
    if isinstance(value, dict):
        return {names.get(k, k): renamed(v, names, k) for k, v in value.items()}
    if isinstance(value, list):
        return [renamed(v, names) for v in value]
    return names.get(value, value) if isinstance(value, str) and key != "type" else value


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """The run directory of a report made from the stored result under hostile names."""
    directory = tmp_path_factory.mktemp("hostile") / "run"
    result = json.loads((QUICK / "result.json").read_text())
    names = dict(zip(result["task"]["parents"], NAMES, strict=True))
    result = renamed(result, names)
    result["config"]["title"] = result["command"] = NAMES[0] + NAMES[1]
    directory.mkdir()
    (directory / "result.json").write_text(json.dumps(result))
    report.write(Results.read(directory), directory)
    return directory


def test_nothing_is_written_outside_the_run_directory(hostile):
    assert list(hostile.parent.iterdir()) == [hostile]
    names = {"figure.pdf", "figure.png", "figure.svg", "report.html", "result.json"}
    others = ("by_position", "bands")
    names |= {f"{name}.{ending}" for name in others for ending in ("svg", "pdf")}
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
    """Opens a report, and checks in the end that nothing was requested and nothing failed."""
    requests, messages, contexts = [], [], []

    def open_report(path, **options):
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.route("**/*", lambda route: (requests.append(route.request.url), route.continue_()))
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("dialog", lambda dialog: messages.append(dialog.message))
        page.goto(path.as_uri())
        page.wait_for_selector("#figure svg .mark-symbol path")
        page.wait_for_selector(MARK)
        return page

    yield open_report
    for context in contexts:
        context.close()
    assert len(requests) == len(contexts)
    assert all(url.startswith("file:") and url.endswith("/report.html") for url in requests)
    assert messages == []


def test_hostile_names_are_text(hostile, opened):
    page = opened(hostile / "report.html")
    assert page.locator("#figure svg .mark-line path").count() >= 2 * len(NAMES) - 1
    headings = page.locator("tbody th[scope=row]").evaluate_all(LABELS)
    assert headings == 3 * [name.replace("\r\n", "\n") for name in NAMES]
    assert page.locator("h1").text_content() == NAMES[0] + NAMES[1]
    assert page.evaluate("window.ran") is None
    assert page.locator("img, iframe, object, link").count() == 0


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """The report of the stored result, and that result."""
    results = stored("quick")
    path = tmp_path_factory.mktemp("quick") / "report.html"
    drawn = figures.figures(results)
    path.write_text(report.render(results, {"quick": results}, drawn, []))
    return path, results


def test_headings_sort_the_table(quick, opened):
    path, results = quick
    page = opened(path)
    table = page.locator("table").first

    def column():
        return table.locator("tbody th[scope=row]").evaluate_all(LABELS)

    cells = {entry.label: entry.cell(results.multiples[-1]) for entry in results}
    known = sorted(filter(cells.get, cells), key=lambda label: cells[label].mean)
    unknown = [label for label in cells if not cells[label]]
    heading = table.locator("thead th").last
    heading.get_by_role("button").focus()
    page.keyboard.press("Enter")  # a keyboard can do it too
    assert (column(), heading.get_attribute("aria-sort")) == (known + unknown, "ascending")
    heading.get_by_role("button").click()
    assert (column(), heading.get_attribute("aria-sort")) == (known[::-1] + unknown, "descending")
    table.locator("thead th").first.get_by_role("button").click()
    assert column() == sorted(cells)
    assert heading.get_attribute("aria-sort") is None


def test_the_legend_singles_out_and_a_mark_shows_its_values(quick, opened):
    path, results = quick
    page = opened(path)
    chart = page.locator("#explorable-chart")
    lines = chart.locator(".mark-line path")

    def opacities():
        script = "paths => paths.map(path => +(path.getAttribute('opacity') ?? 1))"
        return sorted(set(lines.evaluate_all(script)))

    assert opacities() == [1]
    chart.locator(".role-legend-label text", has_text="yarn").click()
    pale = "#explorable-chart .mark-line path[opacity='0.04']"
    page.wait_for_selector(pale, state="attached")  # a line of one point is never visible
    assert opacities() == [0.04, 1]
    # the legend has its marks in a separate group; the last mark drawn at 1x covers the others there
    mark = chart.locator(".mark-symbol path[aria-label*='encoding: rope']").last
    mark.hover(force=True)
    page.wait_for_selector("#vg-tooltip-element.visible")
    text = page.locator("#vg-tooltip-element").inner_text()
    for value in results["rope"].cell(8)[:3]:
        assert f"{value:.3f}" in text


def test_the_controls_change_the_chart(quick, opened):
    path, results = quick
    page = opened(path)
    chart = page.locator("#explorable-chart")

    def after(action):
        before = chart.inner_html()
        action()
        changed = "before => document.querySelector('#explorable-chart').innerHTML !== before"
        page.wait_for_function(changed, arg=before)
        page.wait_for_selector(MARK)
        return chart

    after(lambda: page.get_by_role("radio", name="Loss (nats per answer)").check())
    titles = chart.locator(".role-axis-title text").all_text_contents()
    assert "loss (nats per answer)" in titles
    assert "token accuracy" not in titles
    after(lambda: page.get_by_role("radio", name="linear").check())
    label = chart.locator("[aria-label^='X-axis']").get_attribute("aria-label")
    assert "for a linear scale" in label
    marks = chart.locator(".mark-symbol path[aria-label*='encoding: rope']")
    assert marks.count() == len(results.multiples)
    after(lambda: page.get_by_role("checkbox", name="rope", exact=True).uncheck())
    assert marks.count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_nothing_is_wider_than_the_page(quick, opened, scheme):
    page = opened(quick[0], viewport={"width": 390, "height": 844}, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    ink, paper = page.evaluate(
        "[getComputedStyle(document.body).color,"
        " getComputedStyle(document.documentElement).backgroundColor]"
    )
    assert ink != paper
    axis = page.locator("#figure .role-axis-title text").first.get_attribute("fill")
    assert axis == {"light": "#222222", "dark": "#dddddd"}[scheme]


def test_on_a_screen_every_chart_is_whole_and_has_words_for_who_does_not_see_it(quick, opened):
    page = opened(quick[0], viewport={"width": 1440, "height": 900})
    script = "charts => charts.map(c => [c.role, c.ariaLabel, c.scrollWidth - c.clientWidth])"
    charts = page.locator(".chart").evaluate_all(script)
    assert len(charts) >= 4
    captions = figures.captions(quick[1]).values()
    for role, label, hidden in charts:
        assert role in ("img", "graphics-document")
        assert label.startswith("The chosen score against") or label in captions
        assert hidden <= 0
