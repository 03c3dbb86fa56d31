"""The page: everything escaped, nothing loaded, every verdict present, useful without results."""

import errno
import html as escaping
import os
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from octavo.errors import HostError
from octavo.report import html, markdown, numbers
from octavo.report.text_file import write_text

from . import documents
from .surroundings import Document

VOID = {"wbr", "meta", "br", "img", "link", "input", "hr", "path", "line", "rect", "circle"}
LOADING = {"src", "href", "xlink:href", "srcset", "action", "data", "poster", "background", "formaction"}
BIGGEST = 1_500_000


class Page(HTMLParser):
    """The elements, the attributes that could load something, and the visible text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.open: list[str] = []
        self.loads: list[str] = []
        self.handlers: list[str] = []
        self.ids: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name in LOADING and not str(value).startswith("#"):
                self.loads.append(f"{tag} {name}={value}")
            if name.startswith("on"):
                self.handlers.append(f"{tag} {name}={value}")
            if name == "id":
                self.ids.append(str(value))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
            self.open.pop()

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        """The text with the document's percent signs, without the no-break space."""
        return "".join(self.words).replace("\N{NO-BREAK SPACE}", " ")


def check_form(text: str) -> Page:
    """Checks that it is well nested, runs or loads nothing, has unique ids, and is not too big."""
    page = Page(text)
    assert page.open == []
    assert page.loads == []
    assert page.handlers == []
    assert not {"script", "img", "iframe", "link", "object", "embed", "base", "form"} & set(page.tags)
    assert len(page.ids) == len(set(page.ids))
    style = text[text.index("<style>") : text.index("</style>")]
    assert "@import" not in style
    assert "url(" not in style
    assert len(text.encode()) < BIGGEST
    return page


def test_page_of_small_run(small: Document) -> None:
    text = html.render(small)
    page = check_form(text)
    assert text.startswith("<!doctype html>")
    assert '<html lang="en">' in text
    assert page.tags.count("h1") == page.tags.count("title") == 1
    for verdict in small["verdicts"]:
        assert verdict["sentence"] in page.text
    for limit in small["limits"]:
        assert limit in page.text
    for trial in small["trials"]:
        assert not trial["reason"] or trial["reason"] in page.text
    for effect in small["effects"]:
        assert numbers.ratio_interval(effect["ratio"], effect["low"], effect["high"]) in page.text
    for row in small["noise_floor"]:
        assert f"Noise floor: {numbers.percent(row['floor'])}" in page.text
    assert small["run"]["repeat"] in page.text
    assert small["run"]["plan"] in page.text
    assert "bgwriter_lru_maxpages" in page.text
    assert "18.6-b4w8-1a2b3c4d5e6f" in page.text
    assert "This run" not in page.text.split("What this run")[0]


def test_page_of_grid(grid: Document) -> None:
    page = check_form(html.render(grid))
    assert len(grid["verdicts"]) == 82
    for verdict in grid["verdicts"]:
        assert verdict["sentence"] in page.text


def test_colours_are_not_better_or_worse_where_nothing_is(grid: Document) -> None:
    grid["metrics"][grid["run"]["primary_metric"]]["better"] = None
    text = html.render(grid)
    assert "Blue is more and orange is less, in the steps above." in text
    assert "Blue is better" not in text


def test_small_run_has_three_figures_in_both_themes(small: Document) -> None:
    text = html.render(small)
    assert text.count("<figure") == 3
    # The estimates are repeated for a narrow screen.
    assert text.count("<svg") == text.count('role="img"') == 4
    assert text.count('class="chart narrow"') == 1
    used = set(re.findall(r"var\((--c[1-4][0-9a-f]{2})\)", text))
    light, dark = text.split("<style>")[1].split("@media screen and (prefers-color-scheme:dark)")[:2]
    assert len(used) > 5
    for name in used:
        assert f"{name}:#" in light and f"{name}:#" in dark


def test_settings_that_differ_name_the_factor(small: Document) -> None:
    text = html.render(small)
    row = text[text.index('<th scope="row">block_size</th>') :].split("</tr>")[0]
    assert "data_block" in row
    assert "4096" in row
    assert "8192" in row
    assert '<th scope="row">segment_size</th>' not in text


def test_hostile_text_stays_text() -> None:
    document = documents.hostile()
    text = html.render(document)
    page = check_form(text)
    nasty = document["limits"][0]
    assert nasty in page.text
    assert "<script>alert" not in text
    assert escaping.escape(document["limits"][0]).replace("&quot;", '"') in text
    for verdict in document["verdicts"]:
        assert verdict["sentence"] in page.text


@pytest.mark.parametrize("status", ["running", "interrupted", "failed"])
def test_unfinished_run_says_so_first(status: str) -> None:
    document = documents.single()
    document["run"].update(status=status, rounds_finished=2)
    text = Page(html.render(document)).text
    assert status in text.lower()
    assert "2 of 5 rounds are complete" in text
    assert text.index("2 of 5 rounds are complete") < text.index(document["run"]["question"])


def test_edge_documents_have_a_page(edge: Document) -> None:
    page = check_form(html.render(edge))
    assert "Verdict" in page.text
    assert "Repeat it" in page.text
    if not edge["verdicts"]:
        assert "No verdict" in page.text


def test_bare_document_has_a_page() -> None:
    document = documents.single()
    document.update(cells=[], trials=[], summary=[], limits=[], environment={}, metrics={})
    assert "No trial has run yet." in check_form(html.render(document)).text


def test_the_same_document_gives_the_same_page() -> None:
    assert html.render(documents.single()) == html.render(documents.single())


def test_tables_by_item_that_decide_nothing_are_folded() -> None:
    document = documents.queries()
    folded = "nothing decided among 22"
    assert folded not in html.render(document)
    for effect in document["effects"]:
        effect["verdict"] = "undecided (needs 2 more rounds)"
    assert folded in html.render(document)


def test_every_host_of_a_fleet_is_in_the_environment(small: Document) -> None:
    """What the run has of a host is the first one's."""
    first = small["environment"]["host"] | {"hostname": "a"}
    busy = {"check": "processes", "severity": "disturbs", "found": "gcc", "why": "it takes the CPU", "fix": "end it"}
    small["environment"] |= {"host": first, "fleet": {
        "db1": {"number": 1, "host": first},
        "db2": {"number": 2, "host": first | {"hostname": "b", "cpu": "Another CPU"}, "host_checks": [busy]},
    }}  # fmt: skip
    page = check_form(html.render(small))
    for shown in (first["cpu"], "Another CPU", "db2: processes", "The page stack, from CPU to SSD, on a"):
        assert shown in page.text
    text = " ".join(markdown.render(small).split())
    for shown in (
        f"- db1: {first['cpu']}, 2 cores",
        "- db2: Another CPU, 2 cores",
        "- page stack on a: CPU memory page",
    ):
        assert shown in text


def test_what_was_asked_of_the_host_is_told(small: Document) -> None:
    assert "Knobs and limits" not in html.render(small)
    asked = {"thp": {"asked": "always", "achieved": "always [<b>]", "found": "never"}}
    small["trials"][0]["facts"] = {"knobs": asked}
    assert '<td>always</td><td class="text"><div class="box">always [&lt;b&gt;]</div>' in html.render(small)


def test_a_directory_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r"nowhere/page\.html cannot be written: No such file"):
        write_text("page", tmp_path / "nowhere" / "page.html")
    assert not (tmp_path / "nowhere").exists()


def test_conditions_are_in_words_and_the_picture_comes_before_the_verdicts(small: Document) -> None:
    for cell in small["cells"]:
        cell["condition"] = cell["condition"].replace("read-only", "memory 224MB, mbps=40, read-only")
    text = html.render(small)
    assert "224 MB of memory, a 40 MB/s device, read-only" in Page(text).text
    places = [text.index(one) for one in ('class="answer', 'id="picture"', 'id="verdict"', 'id="numbers"')]
    assert places == sorted(places)
    assert '<details class="part" id="numbers">' in text


def test_metrics_of_few_cells_are_listed_downwards(small: Document, grid: Document) -> None:
    assert '<th scope="col">metric</th>' in html.render(small)
    assert '<th scope="col">metric</th>' not in html.render(grid)


def test_a_page_that_finds_no_room_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_path: Path, _content: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("octavo.report.text_file.replace_file", full)
    with pytest.raises(HostError, match=r"page\.html cannot be written: No space left on device; name a file where"):
        write_text("page", tmp_path / "page.html")
