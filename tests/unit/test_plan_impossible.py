from types import SimpleNamespace

import pytest
from tests.unit.plans import changed_plan, small_plan

from octavo.errors import UsageError
from octavo.plan.cells import make_cells
from octavo.plan.impossible import impossible_cells, refuse_impossible
from octavo.plan.model import Plan


def reasons(plan: Plan) -> dict[str, str]:
    return {each.cell.label: each.reason for each in impossible_cells(plan, make_cells(plan))}


def plan_with(settings: dict[str, str] | None = None, **levels: str) -> Plan:
    """A plan of one data block, without the pinned settings that are refused at some size."""
    chosen = {"bgwriter_flush_after": "256kB", **(settings or {})}
    table = "\n".join(f'{name} = "{value}"' for name, value in chosen.items())
    block = levels.get("data_block", "8kB")
    return changed_plan(
        {"[factors]": f"[settings]\n{table}\n[factors]", 'data_block = "8kB"': f'data_block = "{block}"'},
        **{name: [level] for name, level in {"data_block": "8kB", "mode": "read-only", **levels}.items()},
    )


# Each comment has the message of PostgreSQL 18.6 at these sizes, or what it would do silently.
@pytest.mark.parametrize(
    ("plan", "words"),
    [
        # 8 32kB is outside the valid range for parameter "shared_buffers" (16 32kB .. 1073741823 32kB)
        (plan_with(data_block="32kB", shared_buffers="256kB"), ["shared_buffers 256kB", "512kB", "16 to"]),
        # 1073741824 1kB is outside the valid range
        (plan_with(data_block="1kB", shared_buffers="1TB"), ["shared_buffers 1TB", "1073741823 blocks"]),
        # 64 16kB is outside the valid range for parameter "temp_buffers" (100 16kB .. 1073741823 16kB)
        (plan_with({"temp_buffers": "1MB"}, data_block="16kB"), ["temp_buffers 1MB", "1600kB"]),
        # 512 1kB is outside the valid range for parameter "bgwriter_flush_after" (0 1kB .. 256 1kB)
        (plan_with({"bgwriter_flush_after": "512kB"}, data_block="1kB"), ["bgwriter_flush_after 512kB", "256kB"]),
        # "transaction_buffers" must be a multiple of 16.
        (plan_with({"transaction_buffers": "100kB"}, data_block="1kB"), ["transaction_buffers", "multiple of 16"]),
        # 8 32kB is outside the valid range for parameter "notify_buffers" (16 32kB .. 32768 32kB)
        (plan_with({"notify_buffers": "256kB"}, data_block="32kB"), ["notify_buffers 256kB", "512kB to 1GB"]),
        # 256 1kB is outside the valid range for parameter "io_combine_limit" (1 1kB .. 128 1kB)
        (plan_with({"io_combine_limit": "256kB", "io_max_combine_limit": "256kB"}, data_block="1kB"),
         ["io_combine_limit 256kB", "1 to 128 blocks"]),
        (plan_with({"io_combine_limit": "128kB"}, data_block="1kB", version="17"),
         ["io_combine_limit 128kB", "1 to 32 blocks"]),
        (plan_with({"io_combine_limit": "256kB", "io_max_combine_limit": "128kB"}),
         ["256kB is above", "io_max_combine_limit 128kB", "silently"]),
        (plan_with({"wal_buffers": "128kB"}, wal_block="64kB"), ["128kB is below", "4 WAL blocks (256kB)", "silently"]),
        (plan_with({"wal_buffers": "4GB"}), ["wal_buffers 4GB", "2 GB"]),
        (plan_with(memory="128MB"), ["memory limit of 128MB", "shared_buffers of 128MB"]),
        (plan_with(memory="128MB", huge_pages="2MB"), ["memory limit of 128MB", "shared_buffers of 128MB"]),
        (plan_with(memory="1200MB", shared_buffers="1GB", huge_pages="1GB"), ["memory limit of 1200MB", "take 2 GB"]),
        (plan_with(memory="128MB", equal="memory"), ["memory limit of 128MB", "take 128 MB"]),
        (plan_with(memory="140MB", data_block="1kB"), ["memory limit of 140MB", "metadata of each buffer"]),
        (plan_with(memory="1200MB", shared_buffers="1GB", data_block="1kB"), ["1.18 GB", "metadata of each buffer"]),
        (plan_with(wal_segment="256MB"), ["recycled_wal 384MB", "two WAL segments of 256MB"]),
        # "max_wal_size" must be at least twice "wal_segment_size"
        (plan_with({"max_wal_size": "16"}, recycled_wal="32MB"), ["max_wal_size 16", "two WAL segments of 16MB"]),
        (plan_with({"Max_WAL_Size": "16"}, recycled_wal="32MB"), ["max_wal_size 16"]),  # names are in any case
        (plan_with(wal_segment="1MB"), ["recycled_wal 384MB", "max_wal_size 64MB"]),
        # "debug_io_direct" is not supported for data because BLCKSZ is too small.
        (plan_with({"debug_io_direct": "data"}, data_block="2kB"), ["debug_io_direct data", "data_block of 4kB"]),
        (plan_with({"debug_io_direct": "data,wal"}, wal_block="2kB"), ["wal_block of 4kB"]),
        # WAL streaming ("max_wal_senders" > 0) requires "wal_level" to be "replica" or "logical"
        (plan_with({"wal_level": "minimal"}), ["wal_level minimal", "max_wal_senders 0"]),
        (plan_with({"wal_level": "minimal", "max_wal_senders": "0", "archive_mode": "on"}), ["archive_mode off"]),
    ],
)  # fmt: skip
def test_a_cell_that_cannot_exist_has_its_reason(plan: Plan, words: list[str]) -> None:
    (reason,) = reasons(plan).values()
    assert all(word in reason for word in words), reason


@pytest.mark.parametrize(
    "plan",
    [
        plan_with(),
        plan_with(data_block="32kB", shared_buffers="512kB"),
        plan_with(data_block="1kB", shared_buffers="16kB"),
        plan_with({"temp_buffers": "1600kB", "checkpoint_flush_after": "0"}, data_block="16kB"),
        plan_with({"transaction_buffers": "0", "wal_buffers": "-1"}),
        plan_with({"io_combine_limit": "1MB", "io_max_combine_limit": "1MB"}),
        plan_with({"io_combine_limit": "128kB"}, data_block="4kB", version="17"),
        plan_with(data_block="1kB", version="15"),
        plan_with(memory="129MB", data_block="32kB"),
        plan_with(memory="140MB", data_block="1kB", equal="memory"),
        plan_with({}, memory="140MB", huge_pages="2MB"),
        plan_with({"max_wal_size": "4GB"}, wal_segment="1GB", recycled_wal="2GB"),
        plan_with({"debug_io_direct": ""}, data_block="1kB", wal_block="1kB"),
        plan_with({"wal_level": "minimal", "max_wal_senders": "0"}),
        plan_with({"max_wal_size": "lots", "shared_preload_libraries": "x"}),  # left to the server's parser
    ],
)
def test_what_can_exist_is_left_alone(plan: Plan) -> None:
    assert reasons(plan) == {}
    refuse_impossible(plan, make_cells(plan))


def test_settings_of_the_workload_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the server has them, unless the plan has others."""
    plan, small = plan_with(recycled_wal="4GB"), plan_with({"max_wal_size": "2GB"}, recycled_wal="4GB")
    cells = make_cells(plan)
    assert ["max_wal_size 1GB" in each.reason for each in impossible_cells(plan, cells)] == [True]

    def find(_: str) -> SimpleNamespace:
        return SimpleNamespace(settings={"max_wal_size": "8GB"})

    monkeypatch.setattr("octavo.plan.impossible.workloads.find", find)
    assert impossible_cells(plan, cells) == []
    assert ["max_wal_size 2GB" in each.reason for each in impossible_cells(small, cells)] == [True]


def test_a_setting_that_is_a_factor_counts_as_one() -> None:
    plan = small_plan(**{"settings.temp_buffers": ["1MB", "8MB"], "data_block": ["8kB", "16kB"], "mode": ["read-only"]})
    cells = impossible_cells(plan, make_cells(plan))
    assert [each.cell.id for each in cells] == ["data_block=16kB settings.temp_buffers=1MB"]


def test_the_refusal_is_one_line_with_the_first_the_count_and_the_way_out() -> None:
    flush = {"[factors]": '[settings]\nbgwriter_flush_after = "512kB"\n[factors]'}
    plan = changed_plan(flush, data_block=["1kB", "8kB"])
    with pytest.raises(UsageError) as caught:
        refuse_impossible(plan, make_cells(plan))
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("2 of 4 cells cannot exist: data_block=1kB mode=read-only: bgwriter_flush_after 512kB")
    assert "[[exclude]]" in message
    assert "--dry-run lists all" in message


def test_a_baseline_that_cannot_exist_cannot_be_excluded() -> None:
    plan = plan_with(memory="64MB")
    with pytest.raises(UsageError, match=r"change the levels$"):
        refuse_impossible(plan, make_cells(plan))
