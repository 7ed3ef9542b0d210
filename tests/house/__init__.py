"""What a reader of the code pays, counted: the numbers, the invariants, and the budgets of lines.

- I1: only core/evaluation puts filters, scores, dry run and policies together.
- I2: report/wording has our words for codes; what kube-scheduler says stays in its plugin.
- I3: the engine imports none of its readers.
- I4: limits and work budgets are counted in one module, which makes their texts.
- I5: wire imports no engine, config no cluster, cluster.list no report.
- I6: the path of a call does not get longer.
- I7: no class has more than 12 fields, but schemas and tables.
- I8: each package has a budget of lines, with a reason where it grew.
- I9: only the journal stores what was decided.

`python -m tests.house` prints the table, `python -m tests.house ROW` what a row counts, `--root PATH` counts another
revision. `python -m tests.house --update` lowers the pins after a change that made a number smaller; what makes one
larger needs `--force`, and a reason.
"""
