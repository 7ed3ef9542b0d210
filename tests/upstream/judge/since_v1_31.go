//go:build !before31

package main

import "context"

// preFilter returns upstream's status, the nodes it is limited to (nil: all), and the plugins that limited them.
func (m *machine) preFilter(ctx context.Context, state CycleState) (status *Status, nodes, limiting []string) {
	result, status, plugins := m.fw.RunPreFilterPlugins(ctx, state, m.pod)
	if result.AllNodes() {
		return status, nil, nil
	}
	return status, sortedKeys(result.NodeNames), sortedKeys(plugins)
}
