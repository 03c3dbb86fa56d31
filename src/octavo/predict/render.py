"""A prediction in the terminal: the advice, a row for each size, cheaper changes, and limitations."""

from collections.abc import Callable
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from octavo.report import numbers
from octavo.units import human_duration, human_size

Row = dict[str, Any]


def amount(interval: dict[str, Any] | None, form: str = "number", between: str = " ") -> str:
    """A figure with its interval, rounded for reading.

    >>> amount({"value": 1000.0, "low": 900.0, "high": 1200.0, "because": ""}), amount(None)
    ('1000 (900–1200)', '–')
    >>> amount({"value": 8192.0, "low": 8192.0, "high": 8192.0, "because": ""}, "size")
    '8 kB'
    """
    if interval is None:
        return "–"
    shown = [_shown(interval[name], form) for name in ("value", "low", "high")]
    return shown[0] if shown[1] == shown[2] else f"{shown[0]}{between}({shown[1]}–{shown[2]})"


def _shown(value: float, form: str) -> str:
    if form == "bytes":
        return f"{value:,.0f}"
    if form == "size":
        return human_size(value)
    if form == "percent":
        return f"{100 * value:.1f} %"
    if form == "ratio":
        return f"{value:.2f}"
    return f"{value:.0f}" if abs(value) >= 100 else numbers.significant(value)


COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("buffer\nhits", "hit_ratio", "percent"),
    ("reads", "reads_per_transaction", "number"),
    ("device\nreads", "device_reads_per_transaction", "number"),
    ("device\nbytes", "device_read_bytes_per_transaction", "bytes"),
    ("WAL\nbytes", "wal_bytes_per_transaction", "bytes"),
    ("TPS", "tps", "number"),
    ("TPS\nratio", "tps_ratio", "ratio"),
)


def columns(document: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The columns for which some row has a value."""
    return [one for one in COLUMNS if any(row["figures"][one[1]] is not None for row in document["sizes"])]


def size_name(document: dict[str, Any], row: Row) -> str:
    """The data block, and other properties that differ between rows. The recorded one is marked with a star."""
    name = human_size(row["data_block_bytes"])
    for field, word in (("wal_block_bytes", "WAL"), ("shared_buffers_bytes", "buffers")):
        if len({one[field] for one in document["sizes"]}) > 1:
            name += f", {human_size(row[field])} {word}"
    return name + (" *" if row["is_recorded"] else "")


def table_rows(document: dict[str, Any], show: Callable[..., str] = amount) -> list[tuple[str, ...]]:
    """One row per size. `show` formats a figure and its interval."""
    chosen = columns(document)
    return [
        (size_name(document, row), *(show(row["figures"][name], form, "\n") for _, name, form in chosen))
        for row in document["sizes"]
    ]


def short(interval: dict[str, Any] | None, form: str = "number", between: str = " ") -> str:
    """A figure with the distance to the farther end of its interval, for a narrow table.

    >>> short({"value": 1000.0, "low": 900.0, "high": 1200.0, "because": ""})
    '1000 ±20 %'
    """
    if interval is None:
        return "–"
    value = interval["value"]
    far = max(value - interval["low"], interval["high"] - value)
    shown = _shown(value, form)
    return shown if not value or far < 0.0005 * value else f"{shown}{between}±{numbers.percent(far / value)}"


def size_lines(document: dict[str, Any], show: Callable[..., str] = amount) -> list[tuple[str, ...]]:
    """Further needs of a size: relations, descriptors, page tables; checkpoints and WAL as written."""
    found: list[tuple[str, ...]] = []
    for row in document["sizes"]:
        memory, shown = row["memory"], row["figures"]
        tables = memory["page_tables_huge" if document["conditions"]["huge_pages"] else "page_tables"]
        cells = [
            size_name(document, row),
            show(shown["database_bytes"], "size", "\n"),
            human_size(memory["descriptors"]),
            human_size(tables),
        ]
        if _writes(document):
            cells += [
                show(shown[name], "bytes", "\n")
                for name in ("checkpoint_bytes_per_transaction", "wal_written_bytes_per_transaction")
            ]
        limit = row["bottleneck"]
        found.append((*cells, f"{limit['name']} {100 * limit['used']:.0f} %" if limit else "–"))
    return found


def size_heads(document: dict[str, Any]) -> tuple[str, ...]:
    """The columns of `size_lines`."""
    writes = ("checkpoint\nbytes", "WAL bytes\nwritten") if _writes(document) else ()
    return ("data block", "relations", "descriptors", "page\ntables", *writes, "bottleneck")


def _writes(document: dict[str, Any]) -> bool:
    return any(row["figures"]["checkpoint_bytes_per_transaction"] is not None for row in document["sizes"])


def facts(document: dict[str, Any]) -> list[str]:
    """The recorded values, and the conditions of the prediction."""
    was, under = document["recorded"], document["conditions"]
    found = [
        f"{was['accesses']:,} accesses",
        f"{was['transactions']:,.0f} transactions in {human_duration(was['seconds'])} ({was['tps']:,.0f} TPS)",
        f"recorded with {human_size(was['data_block_bytes'])} data blocks",
    ]
    if was["shared_buffers_bytes"]:
        found.append(f"shared_buffers {human_size(was['shared_buffers_bytes'])}")
    if under["memory_bytes"]:
        found.append(f"memory {human_size(under['memory_bytes'])}")
    found.append(f"device {under['device']['name']}")
    if under["clients"]:
        found.append(f"{under['clients']} clients")
    if sample := document["sample"]:
        found.append(
            f"simulated on 1/{1 / sample['share']:.0f} of the pages (reads ±{numbers.percent(sample['reads_error'])})"
        )
    return found


def check_line(document: dict[str, Any]) -> str | None:
    """How the simulated recorded server compares with the real one."""
    checks = document["recorded"]["simulated_over_counted"]
    if not checks:
        return None
    parts = [f"{name.replace('_', ' ')} × {value:.3f}" for name, value in checks.items()]
    return f"Simulation of the recorded server relative to its own counts: {', '.join(parts)}."


def cheaper_lines(document: dict[str, Any]) -> list[str]:
    """One line per change."""
    return [
        f"{one['change']}: TPS × {amount(one['tps_ratio'], 'ratio')} ({one['because']})"
        for one in document["recommendation"]["cheaper"]
    ]


def break_even_lines(document: dict[str, Any]) -> list[str]:
    """How long a page of each size may stay unused in memory."""
    return [
        f"{human_size(one['data_block_bytes'])}: {numbers.seconds(one['seconds'])}" for one in document["break_even"]
    ]


def troubles(document: dict[str, Any]) -> list[str]:
    """What would not fit, one line for each size."""
    found: list[str] = []
    for row in document["sizes"]:
        found += [f"{human_size(row['data_block_bytes'])}: {line}" for line in row["troubles"]]
    return list(dict.fromkeys(found))


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for place, head in enumerate(heads):
        table.add_column(head, justify="right" if place else "left")
    for row in rows:
        table.add_row(*row)
    return table


def view(document: dict[str, Any]) -> Group:
    """The whole view, most important first."""
    advice = document["recommendation"]
    heads = ("data block", *(head for head, _, _ in columns(document)))
    parts: list[Any] = [Text(advice["sentence"]), Text(", ".join(facts(document))), Text()]
    parts += [
        Text("Per transaction (± the larger side of the 95 % interval; JSON and page have both):"),
        _table(heads, table_rows(document, short)),
        Text(),
        _table(size_heads(document), size_lines(document, short)),
        Text(),
    ]
    if line := check_line(document):
        parts += [Text(line), Text()]

    def section(title: str, lines: list[str]) -> None:
        if lines:
            parts.extend([Text(title), *(Text(f"- {one}") for one in lines), Text()])

    section("Cheaper changes at the recorded data block", cheaper_lines(document))
    section("Cost of switching", [advice["cost"]["text"]] if advice["is_settled"] else [])
    section("What could change this result", advice["changes_if"])
    section("Break-even: pages unused for longer are cheaper to read again", break_even_lines(document))
    section("Rows that do not fit, or are stored differently", troubles(document))
    section("Limitations", document["limitations"])
    return Group(*parts[:-1])
