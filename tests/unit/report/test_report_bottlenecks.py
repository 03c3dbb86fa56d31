"""Bottlenecks in the reports."""

from typing import Any

from octavo.report.bottlenecks import bottleneck_sentence, bottleneck_tables


def document(*resources: str) -> dict[str, Any]:
    sizes = ("4kB", "8kB", "32kB")
    names = [f"{size} data" for size in sizes[: len(resources)]]
    return {
        "cells": [
            {"id": name, "label": name, "condition": "large", "baseline": name == "8kB data", "control": False}
            for name in names
        ],
        "bottlenecks": [
            {
                "cell": name, "condition": "large", "resource": resource, "limits": "device", "cpu_share": 0.5,
                "requests_share": 0.95, "bytes_share": None, "device_busy_share": 0.99, "database_bytes": 2**20,
                "requests_per_second": 1234.0, "bytes_per_second": 2**20,
            }
            for name, resource in zip(names, resources, strict=True)
        ],
    }  # fmt: skip


def test_cells_are_grouped_by_what_they_ran_out_of() -> None:
    told = bottleneck_sentence(document("requests", "requests", "nothing"), "large")
    assert told == "Bottlenecks: requests at 4 kB data and 8 kB data; none at 32 kB data."
    assert bottleneck_sentence(document("nothing", "nothing"), "large") == (
        "Neither the device nor the CPU was the bottleneck in any cell."
    )


def test_a_run_that_saw_no_device_says_nothing() -> None:
    assert bottleneck_sentence({"cells": []}, "large") is None
    assert list(bottleneck_tables({"cells": []})) == []


def test_the_table_has_a_row_for_each_cell() -> None:
    (table,) = bottleneck_tables(document("requests", "nothing"))
    assert table["condition"] == "large"
    assert [row["what"] for row in table["rows"]] == ["requests (95 % of the device’s limit)", "none"]
    assert table["rows"][0]["entries"] == ["1,230", "95 %", "1 MB", "–", "99 %", "50 %", "1 MB"]
