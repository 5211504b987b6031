#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The shared library exports exactly the functions that the headers declare.
set -eu
library=$1
shift
exported=$(nm -D --defined-only "$library" | awk '{print $3}' | sort)
declared=$(sed -n 's/^BP_API .*\(bp_[a-z_]*\)(.*/\1/p' "$@" | sort)
if [ "$exported" != "$declared" ]; then
  echo "exported: $exported"
  echo "declared: $declared"
  exit 1
fi
echo "$(echo "$exported" | wc -l) functions, as declared"
