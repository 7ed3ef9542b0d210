#!/usr/bin/env bash
# Packages:  kubernetes 37.0.2 and lightkube 1.0.1 (PyPI) with k8s.io/api and k8s.io/apimachinery 0.37.2 (Go modules)
# Date:      2026-11-27
# Expected:  a time that a Python client accepts in spec.renewTime of a Lease is written so that Kubernetes reads it.
#            The API documents the field as a date-time (RFC 3339), where the fraction of a second is optional.
# Seen:      both clients leave out a fraction of zero, and Kubernetes' MicroTime insists on six digits: a Lease whose
#            time is a whole second is refused. Who truncates the time to seconds never renews a Lease; who does not
#            meets it once in a million renewals. Other times in the API, metav1.Time, are read with or without one.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check kubernetes==37.0.2 lightkube==1.0.1
cat >write.py <<'PY'
import json
from datetime import UTC, datetime

from kubernetes import client
from lightkube.models.coordination_v1 import Lease, LeaseSpec

for microsecond in (5, 0):
    now = datetime(2026, 11, 27, 12, 0, 0, microsecond, tzinfo=UTC)
    official = client.V1Lease(spec=client.V1LeaseSpec(renew_time=now))
    print("official", json.dumps(client.ApiClient().sanitize_for_serialization(official)["spec"]), sep="\t")
    print("lightkube", json.dumps(Lease(spec=LeaseSpec(renewTime=now)).to_dict()["spec"]), sep="\t")
PY
venv/bin/python write.py >written
printf 'module finding\n\ngo 1.26.0\n\nrequire (\n\tk8s.io/api v0.37.2\n\tk8s.io/apimachinery v0.37.2\n)\n' >go.mod
cat >main.go <<'GO'
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		client, text, _ := strings.Cut(lines.Text(), "\t")
		var spec coordinationv1.LeaseSpec
		verdict := "read"
		if err := json.Unmarshal([]byte(text), &spec); err != nil {
			verdict = "refused"
			fmt.Fprintln(os.Stderr, err)
		}
		fmt.Println(client, text, verdict)
	}
}
GO
GOFLAGS=-mod=mod go run . <written 2>errors >seen || { cat errors >&2; exit 1; }
cat seen && grep 'parsing time' errors
diff seen - <<'SEEN' || { echo "no longer as described above"; exit 1; }
official {"renewTime": "2026-11-27T12:00:00.000005+00:00"} read
lightkube {"renewTime": "2026-11-27T12:00:00.000005Z"} read
official {"renewTime": "2026-11-27T12:00:00+00:00"} refused
lightkube {"renewTime": "2026-11-27T12:00:00Z"} refused
SEEN
