#!/usr/bin/env bash
# Packages:  lightkube 1.0.1 and, as a yardstick, the official client kubernetes 37.0.2 (PyPI)
# Date:      2026-11-27
# Expected:  lightkube.utils.quantity.parse_quantity() reads what Kubernetes writes: its docstring names the reference
#            page of quantities, which has the exponents "e" and "E". That page has no n and u, but Kubernetes writes
#            them: metrics-server reports CPU in n, 0.1m comes back from the API server as 100u.
# Seen:      n and u are refused, as is the exponent with a capital E; what is smaller than 1m is rounded up to it, so
#            equals_canonically() calls 0.1m and 1m equal. The official client reads all of them, to the digit.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check lightkube==1.0.1 kubernetes==37.0.2
cat >look.py <<'PY'
from kubernetes.utils.quantity import parse_quantity as official
from lightkube.utils.quantity import equals_canonically, parse_quantity


def lightkube(text: str) -> str:
    try:
        return str(parse_quantity(text))
    except ValueError as error:
        return f"ValueError: {error}"


for text in ("2083214n", "12u", "1E3", "1e3", "0.1m", "1.5Gi"):
    print(f"{text}: official {official(text):f}, lightkube {lightkube(text)}")
print("0.1m and 1m are equal:", equals_canonically({"cpu": "0.1m"}, {"cpu": "1m"}))
PY
venv/bin/python look.py >seen
cat seen
diff seen - <<'SEEN' || { echo "no longer as described above"; exit 1; }
2083214n: official 0.002083214, lightkube ValueError: Invalid unit suffix: n
12u: official 0.000012, lightkube ValueError: Invalid unit suffix: u
1E3: official 1000, lightkube ValueError: Invalid unit suffix: E3
1e3: official 1000, lightkube 1000.000
0.1m: official 0.0001, lightkube 0.001
1.5Gi: official 1610612736.0, lightkube 1610612736.000
0.1m and 1m are equal: True
SEEN
