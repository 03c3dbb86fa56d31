"""Runs the preprocessor on many sources at once: finds which marked sizes reach their objects, and keeps the
preprocessed texts of those."""

import hashlib
import os
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from octavo._core import markers_that_reach

_TELL_EVERY = 50


def preprocess(
    jobs: Sequence[Mapping[str, Any]], directory: Path, environment: Mapping[str, str], tell: Callable[[int], None]
) -> list[tuple[list[bool], str | None]]:
    """Processes the jobs in order. Returns for each whether each marker reaches the object, and the text's digest.

    A job has the preprocessor's command, the markers, the replacement of each in the text, and the file for the text.
    Only texts that a size reaches, or of sources with conditionals, are kept. `tell` gets the number of finished jobs.
    Raises RuntimeError with the preprocessor's message if it fails.
    """

    def work(job: Mapping[str, Any]) -> tuple[list[bool], str | None]:
        finished = subprocess.run(
            shlex.split(job["command"]),
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            close_fds=False,
        )
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
        # A line marker, so that the object has its source's name.
        file.write_bytes(b'# 1 "%s"\n' % job["source"].encode() + text)
        return reaches, hashlib.sha256(text).hexdigest()

    answers: list[tuple[list[bool], str | None]] = []
    tell(0)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        try:
            for answered in pool.map(work, jobs):
                answers.append(answered)
                if len(answers) % _TELL_EVERY == 0:
                    tell(len(answers))
        except RuntimeError:
            pool.shutdown(cancel_futures=True)
            raise
    return answers
