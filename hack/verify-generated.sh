#!/usr/bin/env bash
# Fails when a generated file is not what its generator makes now.
set -euo pipefail
cd "$(dirname "$0")/.."
before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT
generated() { find pkg/apis config/crd docs/reference -name 'zz_generated*' -o -path 'config/crd/*.yaml' -o -path 'docs/reference/*' -type f 2>/dev/null | sort; }
generated | xargs -r cp --parents -t "$before"
make -s generate
status=0
for f in $( (generated; cd "$before" && find . -type f -printf '%P\n') | sort -u); do
  if ! diff -u --label "$f (checked in)" --label "$f (generated)" "$before/$f" "$f"; then status=1; fi
done
[ $status = 0 ] || echo "generated files were stale; 'make generate' has just written them: check them in"
exit $status
