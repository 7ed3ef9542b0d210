#!/usr/bin/env bash
# Packages:  common-expression-language 0.10.0 and, as a yardstick, cel-expr-python 0.1.3 (PyPI)
# Date:      2026-11-27
# Expected:  exists() is the OR, all() the AND over all elements, and errors of other elements do not count once one
#            element decides (language definition of CEL). So [device without a key, device with it].exists(...) is
#            true; device selectors and admission rules of Kubernetes lean on this.
# Seen:      the first element that lacks the key raises KeyError, though a later one decides. Written out with || the
#            same package answers true.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check common-expression-language==0.10.0 cel-expr-python==0.1.3
cat >look.py <<'PY'
import cel
from cel_expr_python import cel as yardstick

environment = yardstick.NewEnv()
for expression in (
    '[{"gpu": 1}, {"nic": 2}].exists(d, d.nic == 2)',
    '[{"nic": 2}, {"gpu": 1}].exists(d, d.nic == 2)',
    '[{"gpu": 1}, {"nic": 2}].all(d, d.nic == 3)',
    '{"gpu": 1}.nic == 2 || {"nic": 2}.nic == 2',
):
    try:
        found = str(cel.evaluate(expression, {}))
    except KeyError as error:
        found = f"KeyError {error}"
    print(f"{expression}: {found}; cel-expr-python: {environment.compile(expression).eval(data={}).value()}")
PY
venv/bin/python look.py >seen
cat seen
diff seen - <<'SEEN' || { echo "no longer as described above"; exit 1; }
[{"gpu": 1}, {"nic": 2}].exists(d, d.nic == 2): KeyError 'nic'; cel-expr-python: True
[{"nic": 2}, {"gpu": 1}].exists(d, d.nic == 2): True; cel-expr-python: True
[{"gpu": 1}, {"nic": 2}].all(d, d.nic == 3): KeyError 'nic'; cel-expr-python: False
{"gpu": 1}.nic == 2 || {"nic": 2}.nic == 2: True; cel-expr-python: True
SEEN
