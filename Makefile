# Jibe's verbs. "make" alone lists them. Every one works in a clean clone and may be
# repeated; what is built or started the first time is found again the next.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# All is compiled as it is released, and so once for tests, images and packages: without the paths of this machine,
# and without C, whose linker takes as long again as Go's. The race detector needs C.
export GOFLAGS := $(if $(findstring -trimpath,$(GOFLAGS)),$(GOFLAGS),$(strip $(GOFLAGS) -trimpath))
export CGO_ENABLED ?= $(if $(findstring -race,$(GOTESTFLAGS)),1,0)

VERSION      ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
CONTROLPLANE := test/controlplane/controlplane
OPENSTACK    := test/openstack/openstack
GOLANGCI     := go tool -modfile=tools/go.mod golangci-lint
# What it writes of each test is read by test/results.
GOTESTSUM    := go tool -modfile=tools/go.mod gotestsum --no-color --format pkgname --format-hide-empty-pkg --hide-summary skipped,output
# Where the last runs of make test and make test-all are told, for make test-times.
LAST         := .cache/test

# For your own wishes: PKG=./lcm/... GOTESTFLAGS="-race -run TestScale" FUZZTIME=1m SEED=7
# RELEASE_KEY=FILE (of an SSH key) or gpg:ID signs a release, ARCH=amd64 makes it for one alone, IMAGES=0 without images.
PKG          ?= ./...
GOTESTFLAGS  ?=
TEST_TIMEOUT ?= 60m
QUICK_TIMEOUT ?= 20m
FUZZTIME     ?= 10s
CRASH_POINTS ?= 200
CHAOS_TIME   ?= 10m
BENCHFLAGS   ?=

# The release is made from another folder.
abspath_key = $(if $(filter gpg:%,$(RELEASE_KEY)),$(RELEASE_KEY),$(abspath $(RELEASE_KEY)))

# Most tests wait, for processes and disks, more than they compute: more of them run at once than there are
# processors. Real parts do compute. make lint vets.
#
# All tests of these packages need real parts, or take long. make test doesn't even compile them, where all is asked for.
REAL_PKG    := /(examples|store/transfer|test/(backup|bench|browser|chaos|chart|client|crash|e2e|em|ha|ha/clock|kubeenv|lab|netns|nfvo|nodes|openstack|osenv|prometheus|race|redisserver|release|released|scale|workers))$$
quick_pkg    = $(if $(filter ./...,$(PKG)),$(shell go list ./... | grep -vE '$(REAL_PKG)'),$(PKG))
quick_flags := -short -vet=off -p $(shell echo $$(($$(nproc) + 1))) -parallel 4
test_flags  := -vet=off -parallel 4

# Without what has tests use real parts.
without_parts := env -u JIBE_TEST_KUBECONFIG -u JIBE_TEST_REQUIRE -u JIBE_TEST_OS_CLOUD -u JIBE_TEST_REQUIRE_OPENSTACK -u JIBE_TEST_GITEA_URL

# packaging/ is a module of its own, and tested where all is.
packaging_test = $(if $(filter ./...,$(PKG)),go -C packaging test -vet=off ./...,true)

# What make test ran in full isn't run again: of all packages, those remain that it didn't run, and the tests that it
# left out.
whole    = $(if $(filter ./...,$(PKG)),$(LAST)/quick.json)
left_pkg = $(if $(whole),$$(cat $(LAST)/left.packages),$(PKG))
left_run = $(if $(whole),-run "$$(cat $(LAST)/left.pattern)")

# A test that fails is run again alone, up to two times. One that passes then is flaky, which make test-all
# shows, and bears up to five times.
rerun := --rerun-fails=2 --rerun-fails-run-root-test --rerun-fails-max-failures=40

# A control plane of its own, unless JIBE_TEST_KUBECONFIG names one that runs.
ifdef JIBE_TEST_KUBECONFIG
with_cluster := env JIBE_TEST_REQUIRE=1
else
with_cluster := $(CONTROLPLANE) run -- env JIBE_TEST_REQUIRE=1
endif

# One Gitea for all packages, unless JIBE_TEST_GITEA_URL names one that runs. For a few packages each test that needs
# one starts its own.
with_forge := $(if $(JIBE_TEST_GITEA_URL),,$(if $(filter ./...,$(PKG)),test/forge/forge run --))

# An OpenStack of its own, unless JIBE_TEST_OS_CLOUD names a cloud of clouds.yaml, or
# OS_CLOUD does, as for all of OpenStack's clients.
ifdef JIBE_TEST_OS_CLOUD
with_openstack := env JIBE_TEST_REQUIRE_OPENSTACK=1
else ifdef OS_CLOUD
with_openstack := env JIBE_TEST_REQUIRE_OPENSTACK=1 JIBE_TEST_OS_CLOUD=$(OS_CLOUD)
else
with_openstack := $(OPENSTACK) run -- env JIBE_TEST_REQUIRE_OPENSTACK=1
install_openstack := $(OPENSTACK) install
endif
install_openstack ?= true
# The tests that ask for a cloud, and their packages. They run one at a time: Heat on a small
# machine is slower for two at once than for one after the other.
OS_FILES := $(shell grep -rlE '(osenv\.OpenStack|newCloud|lab)\((t|w|tb)[,)]' --include='*_test.go' .)
OS_PKG   ?= $(sort $(dir $(OS_FILES)))
# Those of which some file leaves nothing to test-openstack alone: of the others there is nothing to link in test-all.
OS_HALF   = $(sort $(dir $(shell grep -L "osenv\.NeedFull" $(OS_FILES))))
OS_RUN   ?= ^($(shell grep -hoE '^func Test[A-Za-z0-9_]+' $(OS_FILES) | cut -c6- | sort -u | paste -sd'|'))$$
# What the same files prove at a fake cloud is proven without a real one.
os_flags := -count=1 -vet=off -p 1 -parallel 1 -timeout $(TEST_TIMEOUT) -run '$(OS_RUN)' -skip 'AtAFakeCloud$$'

.PHONY: help
help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## bin/jibe as it is released (static, trimmed, stripped), with its version in it
	go build -buildvcs=false -ldflags "-s -w -X main.version=$(VERSION)" -o bin/jibe ./cmd/jibe

.PHONY: release
release: ## dist/ with all that a version is given to others as; also bin/jibe and bin/conformance.json
	go run -C packaging -buildvcs=false ./release --root .. --out ../dist --binary ../bin/jibe --version "$(VERSION)" \
		$(if $(ARCH),--arch "$(ARCH)") $(if $(RELEASE_KEY),--key "$(abspath_key)") $(if $(filter 0,$(IMAGES)),--images=false)
	go run ./test/conformance -version "$(VERSION)" $(if $(RESULTS),-results "$(RESULTS)") > bin/conformance.json

.PHONY: image
image: ## bin/jibe-image.tar, the container image of this machine's architecture; WITH=python3,bash adds packages of Debian
	@mkdir -p bin
	packaging/image/build -o bin/jibe-image.tar --version "$(VERSION)" $(if $(WITH),--with "$(WITH)")

.PHONY: vulncheck
vulncheck: ## whether Jibe calls anything that Go's vulnerability database knows, where that can be reached
	packaging/vulncheck

.PHONY: test
test: ## the tests that need Go and git alone (10 minutes the first time); make test-all has the others
	@mkdir -p $(LAST); result=0; \
	$(without_parts) $(GOTESTSUM) --jsonfile $(LAST)/quick.json --packages "$(quick_pkg)" -- -timeout $(QUICK_TIMEOUT) $(quick_flags) $(GOTESTFLAGS) || result=1; \
	go run ./test/results summary -also "The skipped ones need a real part, or longer: make test-all runs all." $(LAST)/quick.json || result=1; \
	exit $$result

.PHONY: test-all
test-all: needs $(if $(whole),test) ## all tests, on a real Kubernetes, OpenStack, Gitea, Redis, Chromium … (Debian 12, root), which it installs, starts and stops
	@mkdir -p $(LAST); rm -f $(LAST)/kubernetes.json $(LAST)/openstack.json
	@$(install_openstack)
	@$(if $(whole),go run ./test/results left -packages $(LAST)/left.packages -pattern $(LAST)/left.pattern $(LAST)/quick.json $$(go list ./...))
	@result=0; \
	$(with_cluster) test/halves/halves "make --no-print-directory kubernetes-half" "make --no-print-directory openstack-half" || result=1; \
	go run ./test/results summary -flaky $(LAST)/flaky.txt $(whole) $(LAST)/kubernetes.json $(LAST)/openstack.json || result=1; \
	exit $$result

.PHONY: test-times
test-times: ## write how long each package's tests take into docs/guide/contributors.md, by a run of both; RUN=0 takes the last runs
	$(if $(filter 0,$(RUN)),,$(MAKE) test-all GOTESTFLAGS=-count=1)
	go run ./test/results times -page docs/guide/contributors.md "make test=$(LAST)/quick.json" "the rest on Kubernetes=$(LAST)/kubernetes.json" "on OpenStack=$(LAST)/openstack.json"

# Debian's packages come one after the other, before anything runs that may want to install more.
.PHONY: needs
needs:
	@test/need python3 python3 # for the scripts of the example packages
	@test/need openssl openssl # for the signatures of packages
	@test/need gpg gnupg # for signed commits and tags
	@test/need ssh-keygen openssh-client # likewise
	@/usr/bin/python3 -c 'import yaml' 2>/dev/null || test/need "yaml (a module of python3)" python3-yaml # for user data classes
	@test/need prometheus prometheus # for dashboards and alerts
	@test/need prometheus-alertmanager prometheus-alertmanager # likewise
	@test/need redis-server redis-server # for records in Redis
	@test/need haproxy haproxy # for several replicas
	@test/need chromium-headless-shell chromium-headless-shell # for the web page, and drawing dashboards
	@test/need strace strace # for a disk that is slow

.PHONY: kubernetes-half
kubernetes-half:
	@result=0; \
	$(packaging_test) || result=1; \
	env -u JIBE_TEST_OS_CLOUD -u JIBE_TEST_REQUIRE_OPENSTACK $(with_cluster) $(with_forge) \
		$(GOTESTSUM) $(rerun) --jsonfile $(LAST)/kubernetes.json --packages "$(left_pkg)" -- -timeout $(TEST_TIMEOUT) $(test_flags) $(left_run) $(GOTESTFLAGS) || result=1; \
	exit $$result

.PHONY: openstack-half
openstack-half:
	@$(with_openstack) $(with_cluster) \
		$(GOTESTSUM) $(rerun) --jsonfile $(LAST)/openstack.json --packages "$(if $(filter ./...,$(PKG)),$(OS_HALF),$(PKG))" -- $(os_flags) $(GOTESTFLAGS)

.PHONY: test-openstack
test-openstack: ## the tests on a real OpenStack alone; OS_CLOUD names another cloud, OS_RUN a pattern
	$(with_openstack) env JIBE_TEST_OS_FULL=1 go test $(os_flags) $(GOTESTFLAGS) $(OS_PKG)

.PHONY: conformance
conformance: ## docs/sol-conformance.md as JSON; RESULTS=FILE, of go test -json, says which of its tests passed
	@go run ./test/conformance -version "$(VERSION)" $(if $(RESULTS),-results "$(RESULTS)")

.PHONY: lint
lint: ## gofmt, and golangci-lint with go vet in it, which is built the first time (3 minutes)
	@files=$$(gofmt -l .); \
	if [ -n "$$files" ]; then echo "not formatted, run gofmt -w on:"; echo "$$files"; exit 1; fi
	$(GOLANGCI) run $(PKG)
	go -C packaging vet ./...

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (10s)
	@grep -rlE '^func Fuzz[A-Z]' --include='*_test.go' . | sort | while read -r file; do \
		for target in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]+)\(.*/\1/p' "$$file"); do \
			echo "fuzz $$(dirname "$$file") $$target for $(FUZZTIME)"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")" </dev/null; \
		done; \
	done

.PHONY: bench
bench: ## Go benchmarks, then the figures of the whole, which docs/benchmarks.md is written from; BENCHFLAGS=-short is quicker
	go test -run '^$$' -bench . -benchmem $(GOTESTFLAGS) $(PKG)
	$(with_cluster) test/bench/run -page docs/benchmarks.md $(BENCHFLAGS)

# The tests that are too long to judge each change by say so in their first line.
CHAOS_PKG ?= $(filter-out ./test/chaos/ ./test/ha/,$(sort $(dir $(shell grep -rl '^.testenv\.Chaos' --include='*_test.go' .))))
chaos_run  = ^($(shell grep -rh -B1 'testenv\.Chaos' --include='*_test.go' $(CHAOS_PKG) | grep -oE 'func Test[A-Za-z0-9_]+' | cut -c6- | sort -u | paste -sd'|'))$$

.PHONY: chaos
chaos: ## kill Jibe at CRASH_POINTS (200) points, break everything for CHAOS_TIME (10m), and run the variants that test-all leaves out; SEED repeats
	JIBE_TEST_CHAOS=1 JIBE_CRASH_POINTS=$(CRASH_POINTS) JIBE_CRASH_SEED=$(SEED) JIBE_CHAOS_DURATION=$(CHAOS_TIME) JIBE_CHAOS_SEED=$(SEED) \
		$(with_cluster) go test -count=1 -p 1 -timeout 2h -v $(GOTESTFLAGS) ./test/crash ./test/chaos
	JIBE_TEST_CHAOS=1 $(with_cluster) go test -count=1 -p 1 -timeout 2h -v $(GOTESTFLAGS) \
		-run '$(chaos_run)' $(CHAOS_PKG)
	JIBE_TEST_CHAOS=1 JIBE_ALERTS_UNTIL_RESOLVED=1 $(with_cluster) go test -count=1 -timeout 1h -v $(GOTESTFLAGS) -run 'TestAlertsOf' ./test/prometheus

.PHONY: chaos-ha
chaos-ha: needs ## upgrade three replicas from FROM, break them, Redis and the git server for CHAOS_TIME (10m) under load, and prove that nothing is lost; SEED repeats
	JIBE_TEST_CHAOS=1 JIBE_HA_DURATION=$(CHAOS_TIME) JIBE_HA_SEED=$(SEED) JIBE_HA_FROM=$(FROM) $(with_cluster) go test -count=1 -timeout 2h -v $(GOTESTFLAGS) ./test/ha

.PHONY: try
try: build ## Jibe without any cluster: a small fleet that lives, on a simulated VIM, until ctrl-C
	@bin/jibe try

.PHONY: demo
demo: ## a walk through Jibe on a real control plane; KEEP=1 leaves it running
	test/demo/demo.sh

.PHONY: demo-openstack
demo-openstack: ## a walk through VNFs of virtual machines on a real OpenStack; KEEP=1 leaves it running
	test/demo/openstack.sh

.PHONY: demo-workers
demo-workers: ## a walk through a Kubernetes cluster that is a VNF, on virtual machines; KEEP=1 leaves it running
	test/demo/workers.sh

# On KUBECONFIG's cluster where it is set, as make demo.
.PHONY: demo-ha
demo-ha: build needs ## three replicas, Redis and a git server that break while people work, and the proof that nothing is lost (2 minutes)
	$(if $(KUBECONFIG),,$(CONTROLPLANE) run --) go run ./test/ha/demo -jibe bin/jibe $(if $(SEED),-seed $(SEED))

# On KUBECONFIG's cluster where it is set, as make demo.
.PHONY: demo-fleet
demo-fleet: needs ## a fleet of 300 sites on a real forge: pull request, waves, approval, halt, freeze; SITES, and KEEP=1 leaves it running
	test/demo/fleet.sh

.PHONY: pictures
pictures: ## draw dashboards and web page anew to docs/pictures, from runs with failures (5 minutes)
	$(with_cluster) test/prometheus/pictures
	test/browser/pictures

.PHONY: controlplane
controlplane: ## start a control plane to play with, and say how to reach it
	@kubeconfig=$$($(CONTROLPLANE) start); \
	echo; echo "export KUBECONFIG=$$kubeconfig PATH=$$($(CONTROLPLANE) path):\$$PATH"; \
	echo "stop it with: $(CONTROLPLANE) stop (or wipe, which forgets its data too)"

.PHONY: openstack
openstack: ## install and start an OpenStack (Debian 12) to play with, and say how to reach it
	@clouds=$$($(OPENSTACK) start); \
	echo; echo "export OS_CLIENT_CONFIG_FILE=$$clouds OS_CLOUD=jibe"; \
	echo "/usr/bin/openstack server list; make test-openstack; stop it with: make openstack-down"

.PHONY: openstack-down
openstack-down: ## stop it; test/openstack/openstack wipe forgets its data too
	@$(OPENSTACK) stop

.PHONY: clean
clean: ## remove what was built here; what was prepared of Kubernetes and OpenStack stays in the cache
	rm -rf bin dist .cache demo-data
