# Every target installs what it needs (Debian packages, and only if something is missing) and leaves nothing running.
# Builds that differ in their flags have scratch folders of their own, so that none of them evicts another's work.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# Targets run one after the other, except in a `make` that a recipe starts with SIDE_BY_SIDE.
ifndef SIDE_BY_SIDE
.NOTPARALLEL:
endif

# What each target needs, and what for: command:package, or library:package. `make` itself is here already.
BUILD_NEEDS := --for 'building with Swift' git:git g++:g++ pkg-config:pkg-config libssl.so:libssl-dev ld.gold:binutils-gold libcurl.so.4:libcurl4 libxml2.so.2:libxml2 \
  libsqlite3.so.0:libsqlite3-0 libncurses.so.6:libncurses6 libz.so.1:zlib1g
TEST_NEEDS := --for 'the tests, as tools and peers' curl:curl socat:socat ncat:ncat wrk:wrk ip:iproute2 unshare:util-linux prlimit:util-linux perl:perl nft:nftables \
  strace:strace python3:python3 dnsmasq:dnsmasq-base nsenter:util-linux openssl:openssl update-ca-certificates:ca-certificates \
  gnutls-cli:gnutls-bin stunnel4:stunnel4 dovecot:dovecot-imapd /usr/lib/postgresql/*/bin/postgres:postgresql tshark:tshark \
  microsocks:microsocks tinyproxy:tinyproxy haproxy:haproxy groff:groff-base zsh:zsh chromium:chromium
DOCS_NEEDS := --for 'the documentation' python3:python3
REALISM_NEEDS := --for 'the comparison with Linux' python3:python3 ip:iproute2
COUNTER_NEEDS := --for 'counting system calls and instructions' python3:python3 strace:strace openssl:openssl valgrind:valgrind objcopy:binutils cc:gcc
EXAMPLE_NEEDS := --for 'the examples, as peers' redis-server:redis-server redis-cli:redis-tools dig:bind9-dnsutils mosquitto_pub:mosquitto-clients \
  mosquitto_sub:mosquitto-clients /usr/lib/python3/dist-packages/websockets/__init__.py:python3-websockets \
  /usr/lib/python3/dist-packages/aiosmtpd/smtp.py:python3-aiosmtpd
BENCH_NEEDS := --for 'the benchmarks' python3:python3 strace:strace openssl:openssl go:golang-go objcopy:binutils cc:gcc beanstalkd:beanstalkd

SETUP := Tests/Tools/setup.sh
TEST := Tests/Tools/test.sh
# The rounds of each race: in most builds, under the sanitizers of `make check`, and in the longest tests of `make nightly`.
ROUNDS ?= 3000
SANITIZER_ROUNDS ?= 1000
NIGHTLY_ROUNDS ?= 1000000
# The seeds with which the conformance suites run in simulations: one, or a range as in 0-9.
SEEDS ?= 0-9
STRICT := -Xswiftc -warnings-as-errors
# What has the format of this project. The packages within keep what they fetch in .build, which is not formatted.
SWIFT_FILES := Sources Tests Benchmarks Docs/Examples/Package.swift Docs/Examples/Sources Docs/Examples/Tests Package.swift
# Where `make install` puts sockcat: below DESTDIR, if that is set.
PREFIX ?= /usr/local
# A program without symbols that needs no Swift runtime. OpenSSL stays shared, because the system keeps it up to date.
INSTALL_BUILD := -c release --product sockcat --static-swift-stdlib -Xlinker --strip-all --scratch-path .build/install $(STRICT)
# Multiplies the deadlines of tests in builds that are slow or run beside another one.
PATIENCE := ACTORSOCKETS_PATIENCE=5
TSAN := $(PATIENCE) TSAN_OPTIONS=halt_on_error=1:suppressions=$(CURDIR)/Tests/Tools/thread-sanitizer.txt
ASAN_SUPPRESSIONS := suppressions=$(CURDIR)/Tests/Tools/address-sanitizer.txt
LSAN := LSAN_OPTIONS=suppressions=$(CURDIR)/Tests/Tools/leak-sanitizer.txt:print_suppressions=0
# The sanitizer keeps freed memory in a quarantine. It is small here, because tests that measure memory count it.
ASAN := $(PATIENCE) $(LSAN) ASAN_OPTIONS=detect_leaks=1:quarantine_size_mb=32:$(ASAN_SUPPRESSIONS)
TSAN_BUILD := --sanitize=thread --scratch-path .build/thread-sanitizer $(STRICT)
ASAN_BUILD := --sanitize=address --scratch-path .build/address-sanitizer $(STRICT)
RELEASE_BUILD := -c release --scratch-path .build/optimised $(STRICT)

# The suites that targets select or leave out: folders, and tags, which Tests/TestSupport/Tags.swift explains.
# Order and races depend on the optimiser, which removes hops between executors. The small modules run, too: an optimized module may lack
# a symbol that another one needs, and only linking shows it.
ORDER_SUITES := Tests/SocketSystemTests Tests/EpollReactorTests \
  Tests/ActorSocketsTests/Order Tests/ActorSocketsTests/Races Tests/ActorSocketsTests/Conformance
SIMULATION_SUITES := Tests/ActorSocketsTests/Network Tests/ActorSocketsTests/Simulation .simulation
SIMULATED_SUITES := Tests/ActorSocketsTests/Conformance Tests/ActorSocketsTests/UDP .simulated
TRACE_SUITE := Tests/ActorSocketsTests/Simulation/TraceRepetitionTests.swift
# Tests with other programs. Their results do not depend on the build. They run the programs with Foundation's Process, as those with the
# tag .foundation.
PROGRAM_SUITES := Tests/SockcatTests Tests/ActorSocketsTLSTests/Peers Tests/ActorSocketsTLSTests/Matrix
FOUNDATION_SUITES := Tests/SourceRulesTests .foundation
CRASH_SUITES := Tests/ActorSocketsTests/Network .crashes
MEMORY_SUITES := Tests/SocketSystemTests Tests/EpollReactorTests Tests/ActorSocketsTLSTests/Engine Tests/ActorSocketsTests/UDP \
  Tests/ActorSocketsTests/Conformance .manualMemory

.PHONY: help demo test check install nightly optimised soak bench bench-quick counters quiet docs examples setup format clean
.PHONY: realism realism-setup build-setup docs-setup test-setup example-setup bench-setup counter-setup lint thread-sanitizer address-sanitizer release-client benchmarks installation snippets
.PHONY: simulate mutations nightly-tests nightly-plain nightly-thread-sanitizer nightly-address-sanitizer nightly-fuzz nightly-scripts

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: build-setup ## What ActorSockets does, visibly, on loopback
	@echo "building (under a minute the first time)"
	@swift build --quiet --product sockcat
	@swift run --quiet --skip-build sockcat demo

test: test-setup ## The whole test suite
	$(TEST) --split

install: build-setup ## sockcat, its man page and its completions, in PREFIX (/usr/local)
	swift build $(INSTALL_BUILD)
	Tests/Tools/install.sh "$$(swift build $(INSTALL_BUILD) --show-bin-path)/sockcat" "$(DESTDIR)$(PREFIX)"

# Two targets at a time: the tests of one mostly wait, and meanwhile another one is built. The longest one begins.
check: setup ## All that has to be right besides the tests
	$(MAKE) --jobs=2 --keep-going --output-sync=target SIDE_BY_SIDE=yes thread-sanitizer address-sanitizer optimised counters docs release-client lint
	@echo "check: everything is right"

nightly: test check nightly-tests nightly-plain nightly-thread-sanitizer nightly-address-sanitizer nightly-fuzz nightly-scripts simulate mutations installation snippets examples benchmarks quiet ## All tests and checks in their long form, which takes hours
	@echo "nightly: everything is right"

lint: ## The format of every Swift file, whether each mutation still finds its place in the sources, and the sums of Docs/Reliability.md
	swift format lint --strict --recursive --parallel $(SWIFT_FILES)
	python3 Tests/Tools/mutations.py --list > /dev/null
	Tests/Tools/reliability.py --check

docs: docs-setup ## The documentation, as a site in Docs/Site
	Tests/Tools/docs.sh Docs/Site

# Warnings are errors here and under the sanitizers, because these builds do not reuse those of `make test`.
optimised: test-setup ## Order, races and conformance, built for release
	ACTORSOCKETS_ROUNDS=$(ROUNDS) $(PATIENCE) $(TEST) --lean --in "$(ORDER_SUITES)" $(RELEASE_BUILD)

thread-sanitizer: test-setup ## Everything with threads under the thread sanitizer
	ACTORSOCKETS_ROUNDS=$(SANITIZER_ROUNDS) $(TSAN) $(TEST) --split --lean --threads \
	  --not-in "$(PROGRAM_SUITES) Tests/ActorSocketsTLSTests/Engine Tests/SourceRulesTests .singleThread .repeats .backtraces" $(TSAN_BUILD)

address-sanitizer: test-setup ## Everything with manual memory under the address sanitizer, leaks included
	ACTORSOCKETS_ROUNDS=$(SANITIZER_ROUNDS) $(ASAN) $(TEST) --lean --in "$(MEMORY_SUITES)" --not-in "$(FOUNDATION_SUITES)" $(ASAN_BUILD)

release-client: build-setup ## A package that depends on this one, built for release and run
	swift run -c release --package-path Tests/ReleaseClient --scratch-path .build/release-client release-client

# Not with STRICT, which would also concern the packages that are fetched.
examples: example-setup ## The integrations and examples of Docs/Examples, built and tested
	WARNINGS_AS_ERRORS=yes swift build --package-path Docs/Examples --build-tests
	WARNINGS_AS_ERRORS=yes swift test --package-path Docs/Examples --skip-build --no-parallel --disable-xctest

benchmarks: build-setup ## The benchmarks, built but not run
	swift build -c release --static-swift-stdlib --package-path Benchmarks

soak: test-setup ## The race tests built for release, with NIGHTLY_ROUNDS rounds each
	ACTORSOCKETS_ROUNDS=$(NIGHTLY_ROUNDS) $(TEST) --in Tests/ActorSocketsTests/Races $(RELEASE_BUILD)

nightly-tests: test-setup ## The whole test suite built for release, with NIGHTLY_ROUNDS rounds of each race
	ACTORSOCKETS_ROUNDS=$(NIGHTLY_ROUNDS) $(TEST) $(RELEASE_BUILD)

nightly-plain: test-setup ## The whole test suite with -D ACTORSOCKETS_PLAIN, which relies on no inner workings of the runtime
	ACTORSOCKETS_ROUNDS=$(ROUNDS) $(TEST) --scratch-path .build/plain -Xswiftc -DACTORSOCKETS_PLAIN $(STRICT)

nightly-thread-sanitizer: test-setup ## The whole test suite under the thread sanitizer
	ACTORSOCKETS_ROUNDS=$(ROUNDS) $(TSAN) $(TEST) --not-in ".backtraces" $(TSAN_BUILD)

nightly-address-sanitizer: test-setup ## The whole test suite under the address sanitizer
	ACTORSOCKETS_ROUNDS=$(ROUNDS) $(ASAN) $(TEST) --not-in "$(PROGRAM_SUITES) $(FOUNDATION_SUITES) $(CRASH_SUITES) .backtraces" $(ASAN_BUILD)
	ACTORSOCKETS_ROUNDS=$(ROUNDS) $(PATIENCE) ASAN_OPTIONS=detect_leaks=0:$(ASAN_SUPPRESSIONS) \
	  $(TEST) --in "$(PROGRAM_SUITES) $(FOUNDATION_SUITES) $(CRASH_SUITES)" $(ASAN_BUILD)

nightly-fuzz: test-setup ## The TLS engine with NIGHTLY_ROUNDS mutated conversations, release build, address sanitizer
	ACTORSOCKETS_ROUNDS=$(NIGHTLY_ROUNDS) $(ASAN) $(TEST) --lean --in Tests/ActorSocketsTLSTests/Engine/EngineFuzzTests.swift \
	  -c release --sanitize=address --scratch-path .build/optimised-address-sanitizer $(STRICT)

simulate: test-setup ## The conformance suites in simulations and with faulty events, with SEEDS (0-9), and the long form of the suites of simulations
	ACTORSOCKETS_SIMULATED=$(SEEDS) $(PATIENCE) $(TEST) --in "$(SIMULATED_SUITES)" $(RELEASE_BUILD)
	ACTORSOCKETS_FAULTY=$(SEEDS) $(PATIENCE) $(TEST) --in "$(SIMULATED_SUITES)" $(RELEASE_BUILD)
	ACTORSOCKETS_SEED_COUNT=100000 $(PATIENCE) $(TEST) --in "$(SIMULATION_SUITES)" $(RELEASE_BUILD)
	ACTORSOCKETS_SEED_COUNT=1000 ACTORSOCKETS_TRACES=$(CURDIR)/.build/traces-debug $(TEST) --in $(TRACE_SUITE)
	ACTORSOCKETS_SEED_COUNT=1000 ACTORSOCKETS_TRACES=$(CURDIR)/.build/traces-release $(TEST) --in $(TRACE_SUITE) $(RELEASE_BUILD)
	cmp .build/traces-debug .build/traces-release

nightly-scripts: test-setup ## Servers whose descriptors run out, 50 of each kind
	Tests/Tools/descriptors.sh 50
	Tests/Tools/descriptors.sh 50 $(RELEASE_BUILD)

mutations: test-setup ## The tests against one-line faults, of which each must make a test fail
	python3 Tests/Tools/mutations.py

snippets: build-setup ## What the README shows, in a package of its own that is built and run
	Tests/Tools/snippets.sh

installation: test-setup ## What `make install` installs, in a folder that is removed again
	Tests/Tools/installation.sh

quiet: bench-setup ## How long quiet connections wait beside a fire hose
	python3 Benchmarks/quiet.py --check

# Root, because it makes network namespaces.
realism: realism-setup ## The TCP of simulations beside Linux's: times and packets of transfers, echoes, connects and outages
	swift build -c release --package-path Tests/Realism --scratch-path .build/realism
	python3 Tests/Tools/realism.py "$$(swift build -c release --package-path Tests/Realism --scratch-path .build/realism --show-bin-path)"

bench: bench-setup ## Processor time, system calls and memory, beside plain C, SwiftNIO, FlyingSocks and Go
	python3 Benchmarks/run.py

bench-quick: bench-setup ## The main cases of it, in a minute
	python3 Benchmarks/run.py --quick

counters: counter-setup ## System calls, allocations and instructions of an echo, held against their thresholds
	python3 Benchmarks/counters.py --check

setup: ## Installs what all of these need
	@$(SETUP) $(BUILD_NEEDS) $(DOCS_NEEDS) $(TEST_NEEDS) $(COUNTER_NEEDS)

build-setup:
	@$(SETUP) $(BUILD_NEEDS)

docs-setup:
	@$(SETUP) $(BUILD_NEEDS) $(DOCS_NEEDS)

test-setup:
	@$(SETUP) $(BUILD_NEEDS) $(TEST_NEEDS)

realism-setup:
	@$(SETUP) $(BUILD_NEEDS) $(REALISM_NEEDS)

example-setup:
	@$(SETUP) $(BUILD_NEEDS) $(TEST_NEEDS) $(EXAMPLE_NEEDS)

bench-setup:
	@$(SETUP) $(BUILD_NEEDS) $(BENCH_NEEDS)

counter-setup:
	@$(SETUP) $(BUILD_NEEDS) $(COUNTER_NEEDS)

format: ## Formats every Swift file in place, and writes the sums of Docs/Reliability.md
	swift format --in-place --recursive --parallel $(SWIFT_FILES)
	Tests/Tools/reliability.py

clean: ## Removes everything that was built
	rm -rf .build Benchmarks/.build Docs/Examples/.build Tests/ReleaseClient/.build Docs/Site
