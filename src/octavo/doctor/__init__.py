"""The cost of page sizes for a running server on its host, and what to change: rules over facts. Reads only.

facts and collect (values and their sources) · engine and rules (one file a rule) · examine (facts → report) · stack,
text, markdown, html (the report for people) · compare (two reports).
"""
