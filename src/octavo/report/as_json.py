"""The document as JSON, as it is."""

import json

from octavo.report.document import Document


def render(document: Document) -> str:
    """The whole document, indented by two; a NaN or an infinity in it raises ValueError."""
    return json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
