"""The alert rules and the dashboard that are shipped: every metric in them exists."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.metrics_core import Metric

from evenbeat.observe.gauges import balance_gauges, gauges_of
from evenbeat.observe.metrics import Metrics
from tests.observe.test_gauges import BALANCE, FIGURES, LAG

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "deploy" / "prometheus" / "evenbeat.rules.yml"
BOARD = ROOT / "deploy" / "grafana" / "evenbeat.json"
DOCUMENT = (ROOT / "docs" / "reference" / "ops" / "monitoring.md").read_text()
NAME = re.compile(r"\b(?:evenbeat|process|scheduler)_\w+")
OUTCOMES = {"completed", "failed", "timeout", "lost", "cancelled", "handed_back", "snoozed"}
OUTCOMES.add("skipped")


def families() -> list[Metric]:
    metrics = Metrics()
    return [
        *metrics.registry.collect(),
        *gauges_of(LAG, FIGURES, metrics.kinds.label),
        *balance_gauges(BALANCE, 0.7),
    ]


def known_names() -> set[str]:
    """Every name that a query may use."""
    suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"]}
    return {
        family.name.removesuffix("_total") + suffix
        for family in families()
        for suffix in suffixes.get(family.type, [""])
    }


def rules() -> list[dict[str, Any]]:
    [group] = yaml.safe_load(RULES.read_text())["groups"]
    return group["rules"]


def queries_of_the_board() -> list[str]:
    panels = json.loads(BOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", [])]


def test_every_metric_in_the_rules_and_on_the_board_exists() -> None:
    queries = [rule["expr"] for rule in rules()] + queries_of_the_board()
    assert len(queries) > 40
    known = known_names()
    for query in queries:
        used = set(NAME.findall(query))
        assert used, query
        assert used <= known, f"{used - known} in {query}"


def test_every_outcome_that_a_query_picks_exists() -> None:
    for query in [rule["expr"] for rule in rules()] + queries_of_the_board():
        for picked in re.findall(r'outcome=~?"([^"]+)"', query):
            assert set(picked.split("|")) <= OUTCOMES, query


def test_every_alert_says_how_bad_it_is_and_what_is_the_case_and_what_to_do() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names) >= 10
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"]["summary"]
        assert f"| `{rule['alert']}` |" in DOCUMENT, (
            "docs/reference/ops/monitoring.md says what to do"
        )


def test_the_board_has_panels_that_do_not_lie_on_each_other() -> None:
    panels = json.loads(BOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (column, row)
            for column in range(place["x"], place["x"] + place["w"])
            for row in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells


def test_every_metric_is_documented_with_its_labels() -> None:
    for family in families():
        if not family.name.startswith(("evenbeat_", "scheduler_")):
            continue
        suffix = "_total" if family.type == "counter" else ""
        name = family.name.removesuffix("_total") + suffix
        assert f"| `{name}" in DOCUMENT, name


def test_names_follow_the_conventions_of_prometheus() -> None:
    for family in families():
        assert re.fullmatch(r"(evenbeat|process|scheduler)_[a-z_]+[a-z]", family.name)
        assert family.documentation.endswith(".")
        assert not re.search(r"_(ms|millis|minutes|hours|kb|percent)\b", family.name)


@pytest.mark.proof
def test_every_alert_is_raised_when_it_should_be_and_none_when_all_is_well() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("needs promtool, of Debian's package prometheus")
    ended = subprocess.run(
        [promtool, "test", "rules", RULES.with_suffix(".test.yml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_rules_are_tested_alert_by_alert() -> None:
    _, wrong = yaml.safe_load(RULES.with_suffix(".test.yml").read_text())["tests"]
    [test] = wrong["promql_expr_test"]
    raised = re.findall(r'alertname="(\w+)"', " ".join(s["labels"] for s in test["exp_samples"]))
    assert sorted(raised) == sorted(rule["alert"] for rule in rules())
