"""The tables of the docs match the code; if this fails: script/doc-tables --write."""

from tests import doc_tables

from octavo.instruments import OPTIONAL, instruments


def test_the_tables_of_the_docs_are_the_codes() -> None:
    different = [path.name for path, text in doc_tables.pages().items() if path.read_text() != text]
    assert different == [], f"{', '.join(different)}: the code says otherwise; run script/doc-tables --write"


def test_a_section_without_a_table_gets_one() -> None:
    page = (doc_tables.DOCS / "instruments.md").read_text()
    name, after = "### vmstat (every 1 s)\n", "### pressure"
    assert name in page
    start, end = page.index(name), page.index(after)
    source = "Source: `/proc/vmstat`.\n\n"
    made = doc_tables.with_figures(page[:start] + "### vmstat (sometimes)\n" + source + page[end:])
    section = made[made.index("### vmstat") : made.index(after)]
    assert section == f"{name}{source}{doc_tables.figures(_vmstat())}\n"


def _vmstat() -> doc_tables.Sampled:
    found = instruments(optional=OPTIONAL)["vmstat"]
    assert isinstance(found, doc_tables.Sampled)
    return found
