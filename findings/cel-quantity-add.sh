#!/usr/bin/env bash
# Packages:  k8s.io/apiserver 0.36.5 and 0.37.2 (Go modules), the package pkg/cel/library
# Date:      2026-11-27
# Expected:  CEL is side-effect-free (its language definition), and add() of the quantity library returns the sum
#            of two quantities. So a quantity never equals itself plus seven.
# Seen:      0.36.5 adds in place where the quantity was written with a fraction of a binary unit: the very operand is
#            7 larger afterwards, equals the sum, and every later use in the expression reads the new value. sub() does
#            the same. 1536Mi, the same number, stays as it is. Cause: such a quantity is held as a pointer to a decimal
#            number, which a copy of the Go struct shares. 0.37.2 answers both alike.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

ask() { # VERSION: answer a few expressions with the library of that version
  mkdir "$work/$1" && cd "$work/$1"
  printf 'module finding\n\ngo 1.26.0\n\nrequire k8s.io/apiserver v%s\n' "$1" >go.mod
  cp "$work/main.go" .
  GOFLAGS=-mod=mod go run . "$1" 2>errors || { cat errors >&2; exit 1; }
}

cat >"$work/main.go" <<'GO'
package main

import (
	"fmt"
	"os"

	"github.com/google/cel-go/cel"
	"k8s.io/apiserver/pkg/cel/library"
)

func main() {
	env, err := cel.NewEnv(library.Quantity())
	if err != nil {
		panic(err)
	}
	for _, expression := range []string{
		`[quantity("1536Mi")].exists(q, q.add(7) == q)`,
		`[quantity("1.5Gi")].exists(q, q.add(7) == q)`,
		`[quantity("1.5Gi")].exists(q, q.sub(quantity("1Gi")) == q)`,
		`[quantity("1.5Gi")].exists(q, q.add(7) == q && q.isGreaterThan(quantity("1536Mi")))`,
	} {
		ast, issues := env.Compile(expression)
		if issues.Err() != nil {
			panic(issues.Err())
		}
		program, err := env.Program(ast)
		if err != nil {
			panic(err)
		}
		value, _, err := program.Eval(map[string]any{})
		if err != nil {
			panic(err)
		}
		fmt.Println(os.Args[1], expression, value)
	}
}
GO
{ ask 0.36.5 && ask 0.37.2; } | tee "$work/seen"

awk '{ print $1, $NF }' "$work/seen" | diff - <(printf '%s\n' '0.36.5 false' '0.36.5 true' '0.36.5 true' '0.36.5 true' \
  '0.37.2 false' '0.37.2 false' '0.37.2 false' '0.37.2 false') || { echo "no longer as described above"; exit 1; }
