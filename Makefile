# Thin verbs over meson and tools/. Every verb first makes sure that its packages are there
# (tools/setup); a build folder that is configured already stays as it is.
# Settings: STEPS=2400  SUITE=unit,lint  K=name  FUZZ_SECONDS=60  PREFIX=/usr/local  DESTDIR=

BUILD ?= build
SUITE ?=
K ?=
FUZZ_SECONDS ?= 60
PREFIX ?= /usr/local

run_tests = tools/run-tests $(if $(SUITE),--suite '$(SUITE)') $(if $(K),--only '$(K)')

.DEFAULT_GOAL := build
.PHONY: build run run-hello test test-faults bench lint asan tsan fuzz install clean help

build: ## build build/downpour and build/libdownpour.so
	@tools/setup build
	@test -f $(BUILD)/build.ninja || meson setup $(BUILD)
	@test $(BUILD)/build.ninja -nt src/kernels || meson setup --reconfigure $(BUILD) # files came or went
	@ninja -C $(BUILD)

run: build ## train a network on MNIST with a cluster on this machine [STEPS=2400]
	@tools/run-mnist $(BUILD)

run-hello: build ## start a server, run a small graph on it, stop it
	@tools/run-hello $(BUILD)

test: ## all checks and tests: lint, unit, integration, conformance [SUITE=a,b] [K=name]
	@tools/setup build lint test
	@$(run_tests) --build $(BUILD)

test-faults: ## the tests that kill, cut and starve tasks [K=name]
	@tools/setup build test
	@tools/run-tests --build $(BUILD) --suite faults $(if $(K),--only '$(K)')

bench: build ## run the benchmarks and print their figures
	@tools/setup bench
	@meson test -C $(BUILD) --benchmark --verbose --num-processes 1
	@"$$(tools/venv 2.21)/bin/python" bench/session/session.py $(BUILD)
	@"$$(tools/venv 2.21)/bin/python" bench/session/memory.py $(BUILD)
	@"$$(tools/venv 2.21)/bin/python" bench/checkpoint/checkpoint.py $(BUILD)
	@"$$(tools/venv 2.21)/bin/python" bench/kernels/kernels.py --build $(BUILD)

lint: ## check format, layering and headers; prints file:line of what is wrong
	@tools/setup lint build
	@tools/run-tests --build $(BUILD) --suite lint

asan: ## unit and integration tests under AddressSanitizer and UBSan [SUITE=a,b] [K=name]
	@tools/setup build test
	@$(run_tests) --build build-asan --sanitizer address

tsan: ## unit and integration tests under ThreadSanitizer [SUITE=a,b] [K=name]
	@tools/setup build test
	@$(run_tests) --build build-tsan --sanitizer thread

fuzz: ## run every fuzzer for FUZZ_SECONDS (60) on its corpus [K=name]
	@tools/setup build fuzz
	@test -f build-fuzz/build.ninja || CC=clang meson setup build-fuzz -Dfuzz=true \
	  -Db_sanitize=address,undefined -Db_lundef=false
	@ninja -C build-fuzz
	@tools/run-fuzz --build build-fuzz --seconds '$(FUZZ_SECONDS)' $(if $(K),--only '$(K)')

install: build ## install the command, library and headers [PREFIX=/usr/local] [DESTDIR=]
	@meson configure $(BUILD) -Dprefix='$(PREFIX)'
	@ninja -C $(BUILD)
	@meson install -C $(BUILD) --no-rebuild $(if $(DESTDIR),--destdir '$(DESTDIR)')

clean: ## remove every build folder
	rm -rf build build-asan build-tsan build-fuzz

help: ## this list
	@echo 'make [verb] [SETTING=value]'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' Makefile
