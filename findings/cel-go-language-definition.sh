#!/usr/bin/env bash
# Packages:  github.com/google/cel-go 0.29.2 (Go module, the CEL of Kubernetes 1.37) and cel-expr-python 0.1.3 (PyPI)
# Date:      2026-11-27
# Expected:  the language definition of CEL: getMilliseconds() of a duration is its milliseconds portion, 234 for 1.234
#            seconds, unlike getSeconds() and its like, which convert the whole; a map with a key twice is an error.
# Seen:      cel-go converts the whole duration (1234) and lets the later of two equal keys win. The C++ implementation,
#            which cel-expr-python wraps, follows the definition in both. A rule that was tried out with one of them
#            decides otherwise with the other.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >expressions <<'CEL'
duration("1.234s").getMilliseconds()
duration("1m1.234s").getMilliseconds()
duration("1m1.234s").getSeconds()
{"a": 1, "a": 2}["a"]
CEL
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check cel-expr-python==0.1.3
cat >evaluate.py <<'PY'
import sys

from cel_expr_python import cel

environment = cel.NewEnv()
for line in sys.stdin:
    try:
        print("cel-expr-python", line.strip(), "=", environment.compile(line.strip()).eval(data={}).value())
    except RuntimeError as error:
        print("cel-expr-python", line.strip(), "raises", str(error).splitlines()[0])
PY
venv/bin/python evaluate.py <expressions >seen
printf 'module finding\n\ngo 1.26.0\n\nrequire github.com/google/cel-go v0.29.2\n' >go.mod
cat >main.go <<'GO'
package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/google/cel-go/cel"
)

func main() {
	env, err := cel.NewEnv()
	if err != nil {
		panic(err)
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		ast, issues := env.Compile(lines.Text())
		if issues.Err() != nil {
			panic(issues.Err())
		}
		program, err := env.Program(ast)
		if err != nil {
			panic(err)
		}
		value, _, err := program.Eval(map[string]any{})
		fmt.Println("cel-go", lines.Text(), "=", value, err)
	}
}
GO
GOFLAGS=-mod=mod go run . <expressions 2>errors >>seen || { cat errors >&2; exit 1; }
cat seen
diff seen - <<'SEEN' || { echo "no longer as described above"; exit 1; }
cel-expr-python duration("1.234s").getMilliseconds() = 234
cel-expr-python duration("1m1.234s").getMilliseconds() = 234
cel-expr-python duration("1m1.234s").getSeconds() = 61
cel-expr-python {"a": 1, "a": 2}["a"] raises ALREADY_EXISTS: duplicate key in map [ALREADY_EXISTS]
cel-go duration("1.234s").getMilliseconds() = 1234 <nil>
cel-go duration("1m1.234s").getMilliseconds() = 61234 <nil>
cel-go duration("1m1.234s").getSeconds() = 61 <nil>
cel-go {"a": 1, "a": 2}["a"] = 2 <nil>
SEEN
