"""Runs the preprocessor over many sources at once, asks which marked sizes reach their objects, and keeps these texts.

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
    """Answers the request's jobs in their order: for each marker whether it reaches, and the text's digest.

    A job has the preprocessor's command, the markers, what stands for each in the text, and the file for the text.
    Only a text that a size reaches, or that is of a source with conditionals, is kept.
    """
    asked: dict[str, Any] = json.loads(request.read_text())

    def work(job: dict[str, Any]) -> tuple[list[bool], str | None]:
        finished = subprocess.run(shlex.split(job["command"]), cwd=asked["directory"], capture_output=True, check=False)
        if finished.returncode != 0:
            raise RuntimeError(finished.stderr.decode(errors="replace"))
        text = finished.stdout
        reaches = markers_that_reach(text, [marker.encode() for marker in job["markers"]])
        if not any(reaches) and not job["conditional"]:
            return reaches, None
        for marker, stands in job["markers"].items():
            text = text.replace(marker.encode(), stands.encode())
        file = Path(job["text"])
        file.parent.mkdir(parents=True, exist_ok=True)
        # A line marker: the object has its source's name.
        file.write_bytes(b'# 1 "%s"\n' % job["source"].encode() + text)
        return reaches, hashlib.sha256(text).hexdigest()

    answers: list[tuple[list[bool], str | None]] = []
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
