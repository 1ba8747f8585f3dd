# Jibe's verbs. "make" alone lists them. Every one works in a clean clone and may be
# repeated; what is built or started the first time is found again the next.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION      ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
CONTROLPLANE := test/controlplane/controlplane
GOLANGCI     := go tool -modfile=tools/go.mod golangci-lint

# For your own wishes: PKG=./lcm/... GOTESTFLAGS="-race -run TestScale" FUZZTIME=1m SEED=7
PKG          ?= ./...
GOTESTFLAGS  ?=
TEST_TIMEOUT ?= 20m
FUZZTIME     ?= 10s
CRASH_POINTS ?= 200
CHAOS_TIME   ?= 10m

# A control plane of its own, unless JIBE_TEST_KUBECONFIG names one that runs.
ifdef JIBE_TEST_KUBECONFIG
with_cluster := env JIBE_TEST_REQUIRE=1
else
with_cluster := $(CONTROLPLANE) run -- env JIBE_TEST_REQUIRE=1
endif

.PHONY: help
help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## bin/jibe, with its version in it
	go build -ldflags "-X main.version=$(VERSION)" -o bin/jibe ./cmd/jibe

.PHONY: release
release: ## bin/jibe as it is given to others: static, stripped, reproducible
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/jibe ./cmd/jibe

.PHONY: test
test: ## all tests, with a real control plane that is started and stopped
	@test/need python3 python3 # for the scripts of the example packages
	$(with_cluster) go test -timeout $(TEST_TIMEOUT) $(GOTESTFLAGS) $(PKG)

.PHONY: unit
unit: ## the tests that need no control plane; the others are skipped
	env -u JIBE_TEST_KUBECONFIG -u JIBE_TEST_REQUIRE go test -timeout $(TEST_TIMEOUT) $(GOTESTFLAGS) $(PKG)

.PHONY: lint
lint: ## gofmt, go vet and golangci-lint, which is built the first time (3 minutes)
	@files=$$(gofmt -l .); \
	if [ -n "$$files" ]; then echo "not formatted, run gofmt -w on:"; echo "$$files"; exit 1; fi
	go vet $(PKG)
	cd test/controlplane && go vet ./helper
	$(GOLANGCI) run $(PKG)

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (10s)
	@grep -rlE '^func Fuzz[A-Z]' --include='*_test.go' . | sort | while read -r file; do \
		for target in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]+)\(.*/\1/p' "$$file"); do \
			echo "fuzz $$(dirname "$$file") $$target for $(FUZZTIME)"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")" </dev/null; \
		done; \
	done

.PHONY: bench
bench: ## Go benchmarks, then the figures of the whole on a real control plane
	go test -run '^$$' -bench . -benchmem $(GOTESTFLAGS) $(PKG)
	$(with_cluster) test/bench/run

.PHONY: chaos
chaos: ## kill Jibe at CRASH_POINTS (200) points, then break everything for CHAOS_TIME (10m); SEED repeats
	JIBE_CRASH_POINTS=$(CRASH_POINTS) JIBE_CRASH_SEED=$(SEED) JIBE_CHAOS_DURATION=$(CHAOS_TIME) JIBE_CHAOS_SEED=$(SEED) \
		$(with_cluster) go test -count=1 -p 1 -timeout 2h -v $(GOTESTFLAGS) ./test/crash ./test/chaos

.PHONY: demo
demo: ## a walk through Jibe on a real control plane; KEEP=1 leaves it running
	test/demo/demo.sh

.PHONY: controlplane
controlplane: ## start a control plane to play with, and say how to reach it
	@kubeconfig=$$($(CONTROLPLANE) start); \
	echo; echo "export KUBECONFIG=$$kubeconfig PATH=$$($(CONTROLPLANE) path):\$$PATH"; \
	echo "stop it with: $(CONTROLPLANE) stop (or wipe, which forgets its data too)"

.PHONY: clean
clean: ## remove what was built here; the control plane's binaries stay in the cache
	rm -rf bin .cache demo-data
