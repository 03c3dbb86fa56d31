"""Small published results: two data blocks and two WAL blocks, two WAL segments, two queries, three runs."""

from pathlib import Path

DATA, WAL, SEGMENTS, QUERIES, RUNS = (4, 8), (8, 64), (16, 1), (1, 9), (1, 2, 3)


def seconds(data: int, wal: int, segment: int, query: int, run: int) -> float:
    """All numbers are distinct; the first run is the longest."""
    cold = 5 if run == 1 else 0
    return query * (10 + data) + wal / 64 + segment / 100 + run / 1000 + cold


def write_tpch(directory: Path) -> Path:
    """A directory of results, complete and without errors."""
    directory.mkdir(parents=True, exist_ok=True)
    start = 1_600_000_000.0
    queries: list[str] = []
    steps: list[str] = []
    sizes: list[str] = []
    for segment in SEGMENTS:
        for data in DATA:
            for wal in WAL:
                geometry = f"{data};{wal};1;{segment}"
                for step, took in (("copy", 100 + data), ("fkey", 10 + segment)):
                    steps.append(f"{geometry};{step};{start};{took};{1000 * took}")
                    start += took
                sizes.append(f"{geometry};{8192 * data};{4096 * data};{16384 * data}")
                for query in QUERIES:
                    plan = f"plan{query}{data if query == 9 else ''}"
                    for run in RUNS:
                        took = seconds(data, wal, segment, query, run)
                        queries.append(f"{geometry};{query};{run};{start};{took};{plan};result{query}")
                        start += took
    for name, lines in (("queries.csv", queries), ("load.csv", steps), ("size.csv", sizes)):
        (directory / name).write_text("\n".join(lines) + "\n")
    (directory / "settings.conf").write_text("shared_buffers = 1GB  # a comment\nlc_time = 'C'\n")
    return directory


def change_line(file: Path, line: int, text: str) -> None:
    lines = file.read_text().splitlines()
    lines[line - 1] = text
    file.write_text("\n".join(lines) + "\n")
