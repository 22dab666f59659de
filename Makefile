# Every target installs what it needs (Debian packages, and only if something is missing) and leaves nothing running.
# Builds that differ in their flags have scratch folders of their own, so that none of them evicts another's work.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

# What each target needs: command:package, or library:package. `make` itself is here already.
BUILD_NEEDS := git:git g++:g++ pkg-config:pkg-config libssl.so:libssl-dev ld.gold:binutils-gold libcurl.so.4:libcurl4 libxml2.so.2:libxml2 \
  libsqlite3.so.0:libsqlite3-0 libncurses.so.6:libncurses6 libz.so.1:zlib1g
TEST_NEEDS := curl:curl socat:socat ncat:ncat wrk:wrk ip:iproute2 unshare:util-linux prlimit:util-linux perl:perl nft:nftables \
  strace:strace dnsmasq:dnsmasq-base nsenter:util-linux openssl:openssl update-ca-certificates:ca-certificates \
  gnutls-cli:gnutls-bin stunnel4:stunnel4 dovecot:dovecot-imapd /usr/lib/postgresql/*/bin/postgres:postgresql
BENCH_NEEDS := python3:python3 strace:strace openssl:openssl
COUNTER_NEEDS := $(BENCH_NEEDS) valgrind:valgrind objcopy:binutils cc:gcc

SETUP := Tests/Tools/setup.sh
TEST := Tests/Tools/test.sh
# The race tests repeat themselves this often under a sanitizer, and this often in a soak.
SANITIZER_ROUNDS ?= 3000
SOAK_ROUNDS ?= 1000000
STRICT := -Xswiftc -warnings-as-errors

.PHONY: help demo test check optimised soak bench bench-quick counters docs setup format clean
.PHONY: build-setup test-setup bench-setup counter-setup lint thread-sanitizer address-sanitizer release-client benchmarks

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: build-setup ## What ActorSockets does, visibly, on loopback
	@echo "building (under a minute the first time)"
	@swift build --quiet --product sockcat
	@swift run --quiet --skip-build sockcat demo

test: test-setup ## The whole test suite
	swift build --build-tests
	$(TEST) --skip-build

check: lint docs optimised thread-sanitizer address-sanitizer release-client benchmarks counters ## All that has to be right besides the tests
	@echo "check: everything is right"

lint: ## The format of every Swift file
	swift format lint --strict --recursive --parallel Sources Tests Benchmarks Package.swift

docs: build-setup ## The documentation, as a site in Docs/Site
	Tests/Tools/docs.sh Docs/Site

# An optimised build hops between executors in its own way, and order depends on it.
optimised: test-setup ## The whole test suite, built for release
	$(TEST) -c release --scratch-path .build/optimised $(STRICT)

# Warnings are errors here, in the builds that have everything in them.
thread-sanitizer: test-setup ## The whole test suite under the thread sanitizer
	ACTORSOCKETS_PATIENCE=5 ACTORSOCKETS_ROUNDS=$(SANITIZER_ROUNDS) TSAN_OPTIONS=halt_on_error=1 \
	  $(TEST) --sanitize=thread --scratch-path .build/thread-sanitizer $(STRICT)

# The tests of the tool, and those of TLS against others, run programs with Foundation's Process, which leaks by itself.
address-sanitizer: test-setup ## The whole test suite under the address sanitizer, leaks included
	ACTORSOCKETS_PATIENCE=5 ACTORSOCKETS_ROUNDS=$(SANITIZER_ROUNDS) ASAN_OPTIONS=detect_leaks=1:suppressions=$(CURDIR)/Tests/Tools/address-sanitizer.txt \
	  $(TEST) --sanitize=address --scratch-path .build/address-sanitizer $(STRICT) \
	  --skip SockcatTests --skip ActorSocketsTLSTests.Peers
	ASAN_OPTIONS=detect_leaks=0:suppressions=$(CURDIR)/Tests/Tools/address-sanitizer.txt \
	  $(TEST) --sanitize=address --scratch-path .build/address-sanitizer $(STRICT) \
	  --filter SockcatTests --filter ActorSocketsTLSTests.Peers

release-client: build-setup ## A package that depends on this one, built for release and run
	swift run -c release --package-path Tests/ReleaseClient --scratch-path .build/release-client release-client

benchmarks: build-setup ## The benchmarks, built but not run
	swift build -c release --static-swift-stdlib --package-path Benchmarks

soak: test-setup ## The test suite built for release, with the race tests SOAK_ROUNDS times each
	ACTORSOCKETS_ROUNDS=$(SOAK_ROUNDS) $(TEST) -c release --scratch-path .build/optimised $(STRICT)

bench: bench-setup ## Processor time, system calls and memory, beside plain C, SwiftNIO, FlyingSocks and Go
	python3 Benchmarks/run.py

bench-quick: bench-setup ## The main cases of it, in a minute
	python3 Benchmarks/run.py --quick

counters: counter-setup ## System calls, allocations and instructions of an echo, held against their thresholds
	python3 Benchmarks/counters.py --check

setup: ## Installs what all of these need
	@$(SETUP) $(BUILD_NEEDS) $(TEST_NEEDS) $(COUNTER_NEEDS)

build-setup:
	@$(SETUP) $(BUILD_NEEDS)

test-setup:
	@$(SETUP) $(BUILD_NEEDS) $(TEST_NEEDS)

bench-setup:
	@$(SETUP) $(BUILD_NEEDS) $(BENCH_NEEDS)

counter-setup:
	@$(SETUP) $(BUILD_NEEDS) $(COUNTER_NEEDS)

format: ## Formats every Swift file in place
	swift format --in-place --recursive --parallel Sources Tests Benchmarks Package.swift

clean: ## Removes everything that was built
	rm -rf .build Benchmarks/.build Tests/ReleaseClient/.build Docs/Site
