"""A value of the kernel in /proc or /sys: read, changed through the journal, read back, and restored.

Restoring never undoes another process's later change: a value that is not the one we set is left alone. A reboot resets
every such value, so an entry of another boot has nothing to undo. A loop device with another image attached since
counts as another device.
"""

import re
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from octavo.errors import OctavoError
from octavo.host.journal import Journal
from octavo.host.kernel_text import chosen
from octavo.host.loop_devices import backing, loop_of
from octavo.host.process import boot_id
from octavo.host.undo import Entry, Undone


@dataclass(frozen=True, slots=True)
class KernelValue:
    """Where a value is, and how the file is written.

    `plain`: the text. `choice`: all choices, the one in force in brackets, as `always [madvise] never`.
    `device`: a line for each device that has one, as `7:0 1048576`; no line is the empty text, written as 0.
    `pool`: nr_hugepages, which is written as the persistent pages and read with the surplus ones, which come and go
    with their users (Documentation/admin-guide/mm/hugetlbpage.rst); its value are the persistent ones.
    """

    path: Path
    form: Literal["plain", "choice", "device", "pool"] = "plain"
    device: str = ""

    def read(self) -> str:
        """The value in force. Raises OSError."""
        text = self.path.read_text(errors="replace").strip()
        if self.form == "choice":
            return chosen(text)
        if self.form == "device":
            lines = (line.partition(" ") for line in text.split("\n"))
            return next((value for device, _, value in lines if device == self.device), "")
        if self.form == "pool":
            return str(int(text) - int((self.path.parent / "surplus_hugepages").read_text()))
        return text

    def choices(self) -> list[str]:
        """The possible values of a `choice`. Raises OSError."""
        return re.sub(r"[\[\]]", "", self.path.read_text(errors="replace")).split()

    def write(self, text: str) -> None:
        """Writes the value, unbuffered and once, as the kernel wants it. Raises OSError."""
        line = f"{self.device} {text or '0'}" if self.form == "device" else text
        with self.path.open("wb", buffering=0) as file:
            file.write(line.encode())

    def __str__(self) -> str:
        """As messages name it."""
        return f"{self.path} of {self.device}" if self.device else str(self.path)


@contextmanager
def changed(
    value: KernelValue,
    text: str,
    journal: Journal,
    *,
    ours: tuple[int, int] | frozenset[str] | None = None,
    ours_later: bool = False,
    moves: Iterable[KernelValue] = (),
) -> Generator[str, None, None]:
    """The value set to `text` within the context; yields the value that the kernel then reports, which may differ.

    `ours` is for a value that the kernel may not reach: every number in this range, or one of these words, counts as
    set by us until it was read back, and with `ours_later` until the end, for a value that we go on changing. `moves`
    are values that the kernel changes by itself when this one is written: restored with it, unless somebody has changed
    them since, which cannot be told with `ours_later`. Values that cannot be read are left out. Raises OctavoError when
    the kernel refuses it.
    """
    found = value.read()
    if found == text and not ours_later:
        yield found
        return
    moved = [(one, _moved(one, before)) for one in moves if (before := _readable(one)) is not None]
    facts: dict[str, Any] = {"moves": [entry for _, entry in moved]} if moved else {}
    if (loop := loop_of(value.path, value.device)) is not None:
        facts["backing"] = list(backing(loop) or ()) or None
    number = journal.record(
        "value", path=str(value.path), form=value.form, device=value.device, found=found, set=text,
        ours=sorted(ours) if isinstance(ours, frozenset) else ours, boot_id=boot_id(), **facts,
    )  # fmt: skip
    try:
        try:
            value.write(text)
        except OSError as error:
            raise OctavoError(f"the kernel refuses {text!r} for {value}: {error.strerror}") from error
        achieved = value.read()
        news: dict[str, Any] = {}
        if not ours_later and (ours is not None or achieved != text):
            news = {"set": achieved, "ours": None}
        if moved and not ours_later:
            # Until here whatever they are at counts as the kernel's doing, from here on only this.
            news["moves"] = [entry | {"set": _readable(one)} for one, entry in moved]
        if news:
            journal.amend(number, **news)
        yield achieved
    finally:
        journal.undo(number)


def _moved(value: KernelValue, found: str) -> Entry:
    return {"path": str(value.path), "form": value.form, "device": value.device, "found": found, "set": None}


def _readable(value: KernelValue) -> str | None:
    try:
        return value.read()
    except OSError:
        return None


def undo_value(entry: Entry) -> Undone | None:
    """Restores a value that is still ours, and the values that the kernel changed with it."""
    value = KernelValue(Path(entry["path"]), entry["form"], entry["device"])
    if entry["boot_id"] != boot_id() or not value.path.exists():
        return None
    if _has_another_image(value, entry.get("backing")):
        return Undone("left", f"left {value}: the device no longer uses Octavo's image")
    moved = [
        (KernelValue(Path(one["path"]), one["form"], one["device"]), one["found"], one["set"])
        for one in entry.get("moves", ())
    ]
    before = [_readable(one) for one, _, _ in moved]
    reported = _put_back(value, entry)
    if reported is not None and reported.what != "put back":
        return reported
    # Writing the value back may have moved them once more: also one that somebody has set since goes back to that.
    others: list[str] = []
    for (one, found, made), then in zip(moved, before, strict=True):
        if (now := _readable(one)) is None:
            continue
        wanted = found if then is None or made is None or then in (found, made) else then
        if wanted != found:
            others.append(f"left {one} at {wanted!r}: it was {found!r}, and was changed by others")
        if now != wanted:
            one.write(wanted)
            if (became := one.read()) != wanted:
                return _outcome(one, became, wanted)
            reported = reported or Undone("put back", f"restored {one} to {wanted!r}")
    if others:
        return Undone("left", "; ".join([*([reported.line] if reported is not None else []), *others]))
    return reported


def _has_another_image(value: KernelValue, was_on: list[int] | None) -> bool:
    """Whether the value is a loop device's that was on one file, and is on another one now."""
    loop = loop_of(value.path, value.device)
    now_on = backing(loop) if loop is not None and was_on is not None else None
    return now_on is not None and list(now_on) != was_on


def _put_back(value: KernelValue, entry: Entry) -> Undone | None:
    now, found = value.read(), entry["found"]
    if now == found:
        return None
    if now != entry["set"] and not _within(now, entry["ours"]):
        return Undone(
            "left", f"left {value} at {now!r}: it was {found!r}, then {entry['set']!r}, then changed by others"
        )
    value.write(found)
    return _outcome(value, value.read(), found)


def _within(now: str, ours: list[int] | list[str] | None) -> bool:
    """Whether the value is in the range, or one of the words, that count as ours."""
    if ours is None:
        return False
    first = ours[0]
    if isinstance(first, str):
        return now in ours
    return now.isdecimal() and first <= int(now) <= int(ours[1])


def _outcome(value: KernelValue, now: str, found: str) -> Undone:
    if now != found:
        return Undone(
            "failed", f"could not restore {value} to {found!r}: it is {now!r}; octavo host restore tries again"
        )
    return Undone("put back", f"restored {value} to {found!r}")


@contextmanager
def counterpart_changed(
    ratio: Path, amount: Path, text: str, *, as_amount: bool, journal: Journal
) -> Generator[tuple[str, str], None, None]:
    """One of two files of which only one is in force: writing one makes the other 0, as vm.dirty_ratio and dirty_bytes.

    Yields both as they then are (Documentation/admin-guide/sysctl/vm.rst). Raises OctavoError when it is refused.
    """
    found = [KernelValue(path).read() for path in (ratio, amount)]
    wanted = ["0", text] if as_amount else [text, "0"]
    if found == wanted:
        yield found[0], found[1]
        return
    number = journal.record(
        "counterparts", ratio=str(ratio), amount=str(amount), found=found, set=wanted, boot_id=boot_id()
    )
    try:
        path = amount if as_amount else ratio
        try:
            KernelValue(path).write(text)
        except OSError as error:
            raise OctavoError(f"the kernel refuses {text!r} for {path}: {error.strerror}") from error
        now = [KernelValue(path).read() for path in (ratio, amount)]
        if now != wanted:
            journal.amend(number, set=now)
        yield now[0], now[1]
    finally:
        journal.undo(number)


def undo_counterparts(entry: Entry) -> Undone | None:
    """Puts the one back that was in force; the kernel makes the other 0. A 0 for the amount would be refused."""
    values = [KernelValue(Path(entry[name])) for name in ("ratio", "amount")]
    if entry["boot_id"] != boot_id() or not all(value.path.exists() for value in values):
        return None
    now, found = [value.read() for value in values], entry["found"]
    if now == found:
        return None
    if now != entry["set"]:
        return Undone(
            "left", f"left {values[0]} and its counterpart at {now}: they were {found}, and were changed by others"
        )
    which = 1 if found[1] != "0" else 0
    values[which].write(found[which])
    return _outcome(values[which], values[which].read(), found[which])
