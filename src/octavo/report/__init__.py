"""Reports: one plain document, made by `octavo.analysis`, for the terminal, Markdown, CSV, JSON or HTML."""
