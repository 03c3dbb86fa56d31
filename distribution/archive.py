"""Zip archives that say nothing of when, where and by whom they were made."""

import io
import time
import zipfile
from collections.abc import Mapping


def zipped(files: Mapping[str, bytes], epoch: int, *, stored: frozenset[str] = frozenset()) -> bytes:
    """A zip of the files by name, in the order of names, all dated `epoch` (seconds); `stored` are not compressed."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, time.gmtime(epoch)[:6])
            entry.external_attr = 0o100644 << 16
            entry.create_system = 3  # Unix, whose modes these are
            kind = zipfile.ZIP_STORED if name in stored else zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[name], kind, compresslevel=9)
    return content.getvalue()


def unzipped(archive: bytes) -> dict[str, bytes]:
    """The files of a zip by name."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return {one.filename: opened.read(one) for one in opened.infolist() if not one.is_dir()}
