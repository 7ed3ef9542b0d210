//go:build !before30

package main

// scorable returns nodes as the plugins that score take them.
func scorable(nodes []NodeInfo) []NodeInfo { return nodes }
