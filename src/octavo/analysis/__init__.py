"""From trials to effects, intervals and verdicts; docs/method.md derives each number."""
