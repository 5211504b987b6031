# SPDX-License-Identifier: Apache-2.0
# The commands of the README. Everything else is CMake: `cmake --list-presets`.
SHELL := /bin/bash
.DEFAULT_GOAL := help

JOBS ?= $(shell nproc)
# Warnings are errors where CI runs, and wherever it is asked for.
WERROR ?= $(if $(CI),ON,OFF)

.PHONY: help
help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

.PHONY: deps
deps: ## install what a bare Debian 12 lacks (or say what to install)
	@scripts/deps.sh build

.PHONY: build
build: deps ## build the library, the command line, tests and examples
	@scripts/build.sh release $(WERROR) $(JOBS)

.PHONY: demo
demo: deps ## compute the examples of the four DirectML documents and check them
	@scripts/build.sh release $(WERROR) $(JOBS) demo
	@build/release/examples/demo

.PHONY: test
test: build ## all tests, the Python package's too, and the named problems under ASan and UBSan
	@scripts/ctest.sh release $(JOBS)
	@scripts/test_python.sh
	@scripts/build.sh asan OFF $(JOBS) backpass_cli operators_test errors_test
	@printf '%s\n' 'BACKPASS_PART_BYTES=1 BACKPASS_CACHE_BYTES=0 build/asan/tools/backpass check --threads 1,3' \
	  'build/asan/tools/backpass check --random 2500 --first 900001' 'build/asan/tools/backpass check' | \
	  xargs -P $(JOBS) -L 1 -t env
	@scripts/ctest.sh asan $(JOBS) -L '^(operators_test|errors_test)$$'

.PHONY: test-full
test-full: test ## the long ones too: all 2^32 conversions, a million random problems, TSan, PyTorch, JAX, the sdist; recorded
	@scripts/build.sh asan OFF $(JOBS) core_test directml_test cpp_api_test
	@scripts/ctest.sh asan $(JOBS) -L '^(core_test|directml_test|cpp_api_test)$$'
	@scripts/test_full.sh $(JOBS)
	@scripts/test_packages.sh

.PHONY: test-arm
test-arm: deps ## the same bits on 64-bit Arm: cross-built, run in an emulator, NEON and SVE; recorded
	@scripts/deps.sh arm
	@scripts/build.sh release $(WERROR) $(JOBS) backpass_cli
	@scripts/test_arm.sh $(JOBS)

PREFIX ?= /usr/local
.PHONY: install
install: deps ## install the library and the command line under PREFIX (/usr/local); DESTDIR is honoured
	@scripts/build.sh release $(WERROR) $(JOBS) backpass backpass_cli
	DESTDIR="$(DESTDIR)" cmake --install build/release --prefix "$(PREFIX)"

.PHONY: bench
bench: build ## verify and time every workload of the cpu group; build/bench.json and build/bench.svg
	BACKPASS_COMMIT=$$(git describe --always --dirty) build/release/tools/backpass bench --json build/bench.json --plot build/bench.svg

.PHONY: peers
peers: ## install what the bench races: oneDNN, and PyTorch under build/peers
	@scripts/peers.sh

.PHONY: callgrind
callgrind: build ## count the instructions of three operators, beside the recorded ones
	@scripts/deps.sh callgrind
	@scripts/callgrind.sh

.PHONY: docs
docs: build ## write the generated tables of the documentation anew
	@scripts/docs.sh $(CURDIR)/build/release/tools/backpass

.PHONY: lint
lint: ## clang-format, clang-tidy and ruff, all clean
	@scripts/deps.sh lint
	@scripts/lint.sh $(JOBS)

.PHONY: format
format: ## rewrite the sources as .clang-format says
	@scripts/deps.sh lint
	@git ls-files '*.h' '*.hpp' '*.c' '*.cpp' '*.cu' '*.cuh' | xargs clang-format-16 -i

.PHONY: clean
clean: ## remove the build folders
	rm -rf build
