"""From cells to trials: reset, measure, validate, store. Nothing here depends on reports."""
