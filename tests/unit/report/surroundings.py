"""The context of the numbers of a synthetic run: its plan, its host, its builds, its settings."""

import json
from typing import Any

Document = dict[str, Any]

METRICS: dict[str, dict[str, Any]] = {
    "tps": {"title": "TPS", "unit": "1/s", "better": "higher"},
    "latency_avg_ms": {"title": "Average latency", "unit": "ms", "better": "lower"},
    "wal_bytes_per_transaction": {"title": "WAL per transaction", "unit": "bytes", "better": None},
    "device_read_bytes_per_transaction": {
        "title": "Device reads per transaction",
        "unit": "bytes",
        "better": None,
    },
    "device_written_bytes_per_transaction": {
        "title": "Device writes per transaction",
        "unit": "bytes",
        "better": None,
    },
    "client_cpu_share": {"title": "CPU share of the client", "unit": "fraction", "better": None},
}


def kilobytes(level: str) -> int:
    return int(level.removesuffix("kB"))


def plan_text(name: str, data: list[str], wal: list[str]) -> str:
    return "\n".join(
        [
            f'name = "{name}"',
            'question = "Which page size is faster for OLTP on this machine?"',
            "",
            "[workload]",
            'kind = "pgbench"',
            "seconds = 30",
            "",
            "[factors]",
            f"data_block = {json.dumps(data)}",
            f"wal_block = {json.dumps(wal)}",
            'mode = ["read-only", "read-write"]',
            "",
            "[baseline]",
            'data_block = "8kB"',
            'wal_block = "8kB"',
            "",
            "[design]",
            "rounds = 5",
            "loads = 2",
            "seed = 1",
            "",
        ]
    )


def make_environment(cells: list[Document]) -> Document:
    sizes = sorted(
        {(c["levels"]["data_block"], c["levels"]["wal_block"]) for c in cells},
        key=lambda pair: (kilobytes(pair[0]), kilobytes(pair[1])),
    )
    stack = [
        ("CPU memory page", 4096, "4 kB", "x86-64"),
        ("huge page", 2097152, "2 MB", "huge_pages_status off; transparent huge pages madvise"),
        ("data block", None, "4 kB, 8 kB", "compared"),
        ("WAL block", 8192, "8 kB", "pinned"),
        ("WAL segment", 16777216, "16 MB", "initdb --wal-segsize"),
        ("I/O request", 131072, "128 kB", "io_combine_limit, counted in bytes"),
        ("filesystem block", 4096, "4 kB", "ext4, data=ordered"),
        ("device sector", 512, "512 B", "logical; physical not reported by this virtual disk"),
        ("SSD page", None, "unknown", "the device does not say"),
    ]
    return {
        "octavo": "0.1.0",
        "host": {
            "kernel": "Linux 6.12.8-generic",
            "cpu": "Example CPU 2620 v3 @ 2.40GHz",
            "cores": 2,
            "memory_bytes": 8 << 30,
            "virtualization": "kvm",
            "page_stack": [dict(zip(("layer", "size_bytes", "value", "detail"), row, strict=True)) for row in stack],
        },
        "builds": [
            {
                "name": f"18.6-b{kilobytes(d)}w{kilobytes(w)}-1a2b3c4d5e6f",
                "version": "18.6",
                "data_block": d,
                "wal_block": w,
                "origin": "postgresql-18.6.tar.bz2",
                "compiler": "gcc 12.2.0",
                "options": ["-Dbuildtype=release", f"-Dblocksize={kilobytes(d)}"],
            }
            for d, w in sizes
        ],
        "pinned": {
            "wal_buffers": "16MB",
            "effective_cache_size": "4GB",
            "shared_buffers": "128MB",
            "checkpoint_timeout": "30min",
            "max_wal_size": "16GB",
            "autovacuum": "off",
        },
        "not_pinned": [
            {"name": "bgwriter_lru_maxpages", "reason": "counts blocks and is too coarse to equal in bytes"},
            {"name": "WAL page headers", "reason": "part of the format"},
        ],
        "settings": {
            c["id"]: {
                "block_size": str(1024 * kilobytes(c["levels"]["data_block"])),
                "wal_block_size": str(1024 * kilobytes(c["levels"]["wal_block"])),
                "shared_buffers": "128MB",
                "wal_buffers": "16MB",
                "segment_size": "1GB",
                "port": str(54000 + number),
            }
            for number, c in enumerate(cells)
        },
    }
