"""The drawing and the table of docs/experiments/prediction.md from documents of octavo predict --against, or points of
benchmarks/predict_counts.py.

octavo predict t.octrace --against RUN --where mode=read-only --format json > read-only.json
.venv/bin/python -m benchmarks.prediction_scatter read-only.json read-write.json --out prediction.svg
"""

import argparse
import json
from pathlib import Path
from typing import Any, cast

from octavo.predict.against import best_blocks, summary
from octavo.predict.render_against import best_line
from octavo.predict.scatter import scatter


def main() -> None:
    """Writes the drawing, and prints the table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("documents", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    points: list[dict[str, Any]] = []
    for path in asked.documents:
        document: Any = json.loads(path.read_text())
        if isinstance(document, list):
            counted = cast(list[dict[str, Any]], document)
            points += [{**one, "device": one["workload"]} for one in counted]
        else:
            points += [{**one, "workload": document["where"].get("mode", path.stem)} for one in document["points"]]
    kind = "png" if asked.out.suffix == ".png" else "svg"
    asked.out.write_bytes(scatter(points).file(kind))
    for row in summary(points):
        print(f"| {row['metric'].replace('_', ' ')} | {row['device']} | {row['count']} | {row['median_error']:.1%} | "
              f"{row['largest_error']:.1%} | {row['covered']:.0%} |")  # fmt: skip
    for one in best_blocks(points):
        print(f"- {one['workload']}, {best_line(one)}")


if __name__ == "__main__":
    main()
