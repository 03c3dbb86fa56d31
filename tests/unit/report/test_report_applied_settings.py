"""The requested host settings and the resulting ones, as the page shows them."""

from typing import Any

from octavo.report.applied_settings import AppliedSetting, applied_settings


def trial(**facts: Any) -> dict[str, Any]:
    return {"levels": {"memory": "224MB"}, "facts": facts}


def test_nothing_asked_is_nothing_told() -> None:
    assert applied_settings({"trials": [trial(), {"levels": {}, "facts": None}]}) == []


def test_each_answer_of_the_kernel_is_counted() -> None:
    def knob(got: str) -> dict[str, Any]:
        return trial(knobs={"page_cache": {"asked": "64kB", "achieved": got, "found": "4kB"}})

    document = {"trials": [knob("64kB, XFS"), knob("64kB, XFS"), knob("32kB, XFS")]}
    assert applied_settings(document) == [AppliedSetting("page_cache", "64kB", "64kB, XFS (2); 32kB, XFS (1)", 3)]


def test_limits_are_told_with_the_range_that_trials_got() -> None:
    mega = 2**20
    document = {
        "trials": [
            trial(
                device="mbps=40",
                memory_limit_bytes=224 * mega,
                device_limit_asked={"read_bytes_per_second": 40.0 * mega, "reads_per_second": 10240.0},
                device_limit_achieved={"read_bytes_per_second": got * mega, "reads_per_second": 10240.0},
            )
            for got in (39.0, 41.0)
        ]
    }
    assert applied_settings(document) == [
        AppliedSetting("mbps=40: bytes read a second", "40 MB", "39 MB to 41 MB", 2),
        AppliedSetting("mbps=40: reads a second", "10,200", "10,200", 2),
        AppliedSetting("memory limit of the server", "224MB", "224 MB", 2),
    ]
