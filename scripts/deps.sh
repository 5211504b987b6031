#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes sure that the packages of a group (build, lint, arm, peers, callgrind) are there: installs them as root, says what to install otherwise.
set -euo pipefail

declare -A groups=(
  [build]="g++ make cmake ninja-build libfmt-dev libhwy-dev libtbb-dev libcli11-dev libgtest-dev pkg-config python3 python3-venv"
  [lint]="clang-format-16 clang-tidy-16 libdnnl-dev python3-venv"
  [arm]="g++-aarch64-linux-gnu qemu-user"
  [peers]="libdnnl-dev python3-venv"
  [callgrind]="valgrind python3"
)
group=${1:?usage: deps.sh build|lint|arm|peers|callgrind}
packages=${groups[$group]:?no such group of packages}

if ! command -v dpkg-query >/dev/null; then
  echo "deps: this is no Debian; needed here are the equivalents of: $packages" >&2
  exit 0
fi
missing=()
for package in $packages; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" -ne 0 ]; then
  echo "deps: these packages are missing; install them and try again:" >&2
  echo "  sudo apt-get install --no-install-recommends ${missing[*]}" >&2
  exit 1
fi
echo "deps: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
