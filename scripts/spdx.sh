#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every source names its license within its first two lines.
status=0
for file in "$@"; do
  head -n 2 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' || { echo "$file: no SPDX line"; status=1; }
done
exit $status
