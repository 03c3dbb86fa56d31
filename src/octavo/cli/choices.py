"""Choices that several verbs offer."""

from enum import StrEnum


class TableFormat(StrEnum):
    """How a listing is printed."""

    text = "text"
    json = "json"


class ReportFormat(StrEnum):
    """How a report is printed."""

    text = "text"
    json = "json"
    csv = "csv"
    md = "md"


class PackageFormat(StrEnum):
    """Package formats."""

    deb = "deb"
    tar = "tar"
