"""The HTML report of made-up results."""

import re

from made_up import made_up

from experiments.analysis import figures, report
from experiments.analysis.compare import differences, merged

SCORES = {"rope": {1: [1.0, 1.0], 2: [0.5, 0.6]}, "learned": {1: [1.0, 0.9], 2: [None, None]}}


def test_charts_have_a_text_alternative_and_tables_have_their_numbers():
    results = made_up(SCORES, encodings={"learned": {"extends": "rope"}})
    charts = figures.figures(results)
    html = report.render(results, {"run": results}, charts, [])
    texts = re.findall(r'<div class="chart[^>]*role="img" aria-label="([^"]+)"', html)
    assert len(texts) == 1 + len(charts)
    assert all(len(text) > 30 for text in texts)
    assert "0.550 (0.500–0.600)" in html
    assert 'data-value="0.55"' in html
    assert '<td data-value="">–</td>' in html
    assert "on rope</span></th>" in html
    assert '<td data-value="1.0">2 of 2</td>' in html


def test_what_has_not_fitted_or_diverged_is_marked():
    results = made_up({"rope": {1: [1.0]}, "nope": {1: [0.5]}, "t5": {1: [None]}}, fitted=["rope"])
    results.data["rows"][-1]["diverged"] = 40
    html = report.render(results, {"run": results}, {}, [])
    marked = re.findall(r'<td data-value="0.0" class="unfitted">(.*?)</td>', html)
    assert marked == ["only 0 of 1", "diverged"] * 3


def test_several_runs_in_one_report(tmp_path):
    runs = {"first": made_up(SCORES), "second": made_up({"alibi": {1: [1.0], 2: [0.95]}})}
    path = report.write_comparison(merged(runs), runs, tmp_path / "both")
    html = path.read_text()
    assert "second: alibi" in html
    assert "mean of 1 to 2 seeds" in html
    (table,) = re.findall("<caption>How the configs differ</caption>.*?</table>", html, re.DOTALL)
    assert re.findall('<th scope="row">(.*?)</th>', table) == list(differences(runs))
    assert html.count("python -m experiments run it.toml") == 2
