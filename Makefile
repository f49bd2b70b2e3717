# Thin verbs over meson and tools/. Every verb first makes sure that its packages are there
# (tools/setup); a build folder that is configured already stays as it is.
# Each verb builds what it needs and no more.
# Settings: V=1 shows every command of the build.
#           STEPS=2400  SUITE=unit,lint  K=name  FUZZ_SECONDS=60  PREFIX=/usr/local  DESTDIR=

BUILD ?= build
SUITE ?=
K ?=
FUZZ_SECONDS ?= 60
PREFIX ?= /usr/local

# What a person builds is for this machine; what is tested or installed is for every one.
build_here = tools/build -Dinstruction_sets=host $(BUILD)
run_tests = tools/run-tests $(if $(SUITE),--suite '$(SUITE)') $(if $(K),--only '$(K)')

.DEFAULT_GOAL := build
.PHONY: build run run-hello check test test-faults bench bench-kernels lint asan tsan fuzz install clean help

build: ## build build/downpour, build/libdownpour.so and the examples [V=1]
	@tools/setup build
	@$(build_here) product

run: ## train a network on MNIST with a cluster on this machine [STEPS=2400]
	@tools/setup build
	@$(build_here) downpour examples/mnist_cnn
	@tools/run-mnist $(BUILD)

run-hello: ## start a server, run a small graph on it, stop it
	@tools/setup build
	@$(build_here) downpour examples/hello
	@tools/run-hello $(BUILD)

check: ## lint and unit tests: for the hand, before a commit [K=name]
	@tools/setup build lint test
	@tools/run-tests --build $(BUILD) --suite lint,unit $(if $(K),--only '$(K)')

test: ## all checks and tests: lint, unit, integration, conformance [SUITE=a,b] [K=name]
	@tools/setup build lint test
	@$(run_tests) --build $(BUILD)

test-faults: ## the tests that kill, cut and starve tasks [K=name]
	@tools/setup build test
	@tools/run-tests --build $(BUILD) --suite faults $(if $(K),--only '$(K)')

bench: ## measure, beside genuine TensorFlow; leaves build/bench/results.json [K=session,memory]
	@tools/setup build bench
	@$(build_here) product meson-benchmark-prereq
	@tools/run-bench --build $(BUILD) $(if $(K),--only '$(K)')

bench-kernels: ## every op beside TensorFlow's own kernel (hours); the same as make bench K=kernels
	@$(MAKE) --no-print-directory bench K=kernels

lint: ## check format, layering, headers and documents; prints file:line of what is wrong
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
	@CC=clang tools/build -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false \
	  build-fuzz fuzzers
	@tools/run-fuzz --build build-fuzz --seconds '$(FUZZ_SECONDS)' $(if $(K),--only '$(K)')

install: ## install the command, library and headers [PREFIX=/usr/local] [DESTDIR=]
	@tools/setup build
	@tools/build --need instruction_sets=all --need prefix='$(PREFIX)' $(BUILD) product man-pages
	@meson install -C $(BUILD) --no-rebuild $(if $(DESTDIR),--destdir '$(DESTDIR)')

clean: ## remove every build folder
	rm -rf build build-asan build-tsan build-fuzz

help: ## this list
	@echo 'make [verb] [SETTING=value]'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' Makefile
