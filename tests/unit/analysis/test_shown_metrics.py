"""Reports of large runs: fewer metrics are analysed, and the shown results are the same."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.planted_runs import plant
from tests.unit.plans import small_plan

from octavo.analysis.document import make_document
from octavo.analysis.item_bottlenecks import READ
from octavo.analysis.shown_metrics import BRIEF, shown_metrics
from octavo.imports import mapped
from octavo.imports.run import save
from octavo.report.items import item_sentences
from octavo.report.memo import remembered
from octavo.report.terminal import print_report
from octavo.store.store import Store
from octavo.workloads.pgbench import WORKLOAD


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store.open(tmp_path / "octavo.sqlite")) as opened:
        yield opened


def test_what_is_shown_of_a_large_run_is_what_is_known_of_it(store: Store) -> None:
    run = plant(store, small_plan(), spoiled=0.1)
    whole, brief = make_document(store, run), make_document(store, run, most_numbers=40)
    assert "metrics_left_out" not in whole
    shown = {row["metric"] for row in brief["summary"]}
    assert {"tps", *BRIEF} <= shown
    assert len(shown) < len({row["metric"] for row in whole["summary"]})
    assert brief["metrics_left_out"] == len(whole["metrics"]) - len(shown)
    for name in ("summary", "effects", "noise_floor", "model"):
        assert brief[name] == [row for row in whole[name] if row["metric"] in shown]
    for name in ("verdicts", "alarms", "limits", "bottlenecks", "cells", "given_up", "run"):
        assert brief[name] == whole[name]


def test_the_terminal_says_the_same_of_either(store: Store) -> None:
    from rich.console import Console

    run = plant(store, small_plan(), spoiled=0.1)
    texts: list[str] = []
    for most in (None, 0):
        console = Console(width=100, record=True, force_terminal=False, quiet=True)
        print_report(make_document(store, run, most_numbers=most), console)
        texts.append(console.export_text())
    assert texts[0] == texts[1]


def test_a_brief_report_has_the_sentences_about_items(store: Store, tmp_path: Path) -> None:
    table, described = tmp_path / "queries.csv", tmp_path / "queries.toml"
    metrics = ["seconds", "seconds_median", *READ[1:], "plan_capture_ratio"]
    shares = {"seconds": "2", "server_cpu_share": "0.95", "plan_capture_ratio": "1.02"}
    lines = [
        ",".join([block, item, *(shares.get(name, "0.01") for name in metrics)])
        for block in ("8kB", "4kB")
        for item in ("q1", "q2", "")
    ]
    table.write_text("\n".join([",".join(["data_block", "item", *metrics]), *lines]))
    columns = "".join(f'{name} = {{ column = "{name}" }}\n' for name in metrics)
    described.write_text(
        'baseline = { data_block = "8kB" }\n[factors]\ndata_block = "data_block"\n'
        f'[trial]\nitem = "item"\n[metrics]\n{columns}'
    )
    run = save(mapped.read(table, described), store.address)
    whole, brief = make_document(store, run), make_document(store, run, most_numbers=0)
    assert {row["bottleneck"] for row in whole["item_bottlenecks"]} == {"CPU"}
    sentences = item_sentences(whole)
    assert [text.split(" ")[0] for text in sentences] == ["Bottleneck", "Capturing"]
    assert item_sentences(brief) == sentences


def test_a_workloads_own_metrics_come_first() -> None:
    own = [metric.name for metric in WORKLOAD.metrics]
    metrics = {name: {"unit": "1"} for name in ("tps", "instrument_cpu_seconds", "wareq_sz", *own)}
    assert shown_metrics(metrics, "pgbench", 10, 10 * len(own))[: len(own)] == own
    assert shown_metrics(metrics, "pgbench", 10, 10 * len(own) + 10)[-1] == "wareq_sz"


def test_a_document_that_is_shown_is_asked_once(store: Store) -> None:
    document = remembered(make_document(store, plant(store, small_plan())))
    assert remembered(document) is document
