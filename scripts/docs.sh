#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# docs.sh BACKPASS [--check]: writes the generated tables of the pages ("<!-- support: OP... -->" to "<!-- end -->") and the
# figures of docs/performance.md anew, or only tells whether they are up to date.
set -euo pipefail
backpass=$1
mode=${2:-}
cd "$(dirname "$0")/.."
status=0
for page in README.md src/ops/*/*.md; do
  grep -q '^<!-- support:' "$page" || continue
  new=$(mktemp)
  while IFS= read -r line; do
    if [ -n "${skipping:-}" ] && [ "$line" != "<!-- end -->" ]; then continue; fi
    skipping=
    printf '%s\n' "$line"
    if [[ $line == "<!-- support:"* ]]; then
      operators=${line#<!-- support:}
      # shellcheck disable=SC2086
      "$backpass" list --markdown ${operators% -->}
      skipping=yes
    fi
  done < "$page" > "$new"
  if ! cmp -s "$new" "$page"; then
    if [ "$mode" = --check ]; then
      echo "$page: a generated table is out of date (make docs)"
      status=1
    else
      cat "$new" > "$page"
      echo "$page: rewritten"
    fi
  fi
  rm -f "$new"
done
scripts/figures.py ${mode:+"$mode"} || status=1
exit $status
