#!/usr/bin/env bash
# Packages:  @kubernetes/client-node 1.4.0, kubernetes-resource-parser 0.1.0 and k8s-resource-parser 0.2.2 (npm)
# Date:      2026-11-27
# Expected:  1.5Gi, a quantity from Kubernetes' own reference page, is 1610612736 bytes for all three. So is 1536Mi, and
#            161061273600m a tenth of it: Kubernetes itself writes 0.15Gi so.
# Seen:      the official client, whose topPods() and topNodes() read quantities by this function, raises SyntaxError
#            for a fraction before a suffix, of which it makes a BigInt (2.0.1, for Node 22, has the same function);
#            kubernetes-resource-parser answers 1 byte, and NaN for the suffix m. k8s-resource-parser has them all.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
echo '{"private": true, "type": "module"}' >package.json
npm install --silent --no-audit --no-fund @kubernetes/client-node@1.4.0 kubernetes-resource-parser@0.1.0 \
  k8s-resource-parser@0.2.2
cat >look.js <<'JS'
import small from 'kubernetes-resource-parser';
import grammar from 'k8s-resource-parser';
import { quantityToScalar } from './node_modules/@kubernetes/client-node/dist/util.js';

function official(quantity) {
  try {
    return String(quantityToScalar(quantity));
  } catch (error) {
    return `${error.name}: ${error.message}`;
  }
}

for (const quantity of ['1536Mi', '1.5Gi', '161061273600m', '1e9']) {
  console.log(`${quantity}: client-node ${official(quantity)}; resource-parser ${small.memoryParser(quantity)}; ` +
    `k8s-resource-parser ${grammar.memoryParser(quantity)}`);
}
JS
node look.js >seen
cat seen
diff seen - <<'SEEN' || { echo "no longer as described above"; exit 1; }
1536Mi: client-node 1610612736; resource-parser 1610612736; k8s-resource-parser 1610612736
1.5Gi: client-node SyntaxError: Cannot convert 1.5 to a BigInt; resource-parser 1; k8s-resource-parser 1610612736
161061273600m: client-node 161061273.6; resource-parser NaN; k8s-resource-parser 161061273.6
1e9: client-node 1000000000; resource-parser 1; k8s-resource-parser 1000000000
SEEN
