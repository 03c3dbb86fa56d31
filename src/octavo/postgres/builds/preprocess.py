"""Runs the preprocessor over many sources at once and asks which marked sizes reach their objects.

A program of its own (`python -m octavo.postgres.builds.preprocess REQUEST ANSWER`), so that the journal has one
child to end and not thousands. It prints how many sources are done.
"""

import hashlib
import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from octavo._core import markers_that_reach

_TELL_EVERY = 50


def main(request: Path, answer: Path) -> int:
    """Answers the request's jobs in their order: for each marker whether it reaches, and the text's digest."""
    asked: dict[str, Any] = json.loads(request.read_text())

    def work(job: dict[str, Any]) -> tuple[list[bool], str]:
        finished = subprocess.run(shlex.split(job["command"]), cwd=asked["directory"], capture_output=True, check=False)
        if finished.returncode != 0:
            raise RuntimeError(finished.stderr.decode(errors="replace"))
        text = finished.stdout
        markers = [marker.encode() for marker in job["markers"]]
        reaches = markers_that_reach(text, markers)
        for number, marker in enumerate(markers):
            text = text.replace(marker, b"<%d>" % number)
        return reaches, hashlib.sha256(text).hexdigest()

    answers: list[tuple[list[bool], str]] = []
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        try:
            for answered in pool.map(work, asked["jobs"]):
                answers.append(answered)
                if len(answers) % _TELL_EVERY == 0:
                    print(len(answers), flush=True)
        except RuntimeError as error:
            print(error, file=sys.stderr)
            pool.shutdown(cancel_futures=True)
            return 1
    answer.write_text(json.dumps(answers))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
