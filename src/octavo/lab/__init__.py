"""From cells to trials. Reset, measure, judge, store; nothing here knows of reports."""
