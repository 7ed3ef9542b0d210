//go:build before30

package main

import v1 "k8s.io/api/core/v1"

// scorable returns nodes as the plugins that score take them.
func scorable(nodes []NodeInfo) (out []*v1.Node) {
	for _, n := range nodes {
		out = append(out, n.Node())
	}
	return out
}
