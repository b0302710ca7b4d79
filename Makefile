# Everything a contributor or CI does, by name. `make` alone prints this list.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# module:floor, in the order in which a module may use another. The floor is
# the least share of statements that the module's own tests must run, in percent.
FLOORS := events:90 infra:70 projections:70 api:70 services:70
MODULES := $(foreach f,$(FLOORS),$(firstword $(subst :, ,$(f))))

BIN := $(CURDIR)/.bin
TOOLS := infra/tools
LINT := $(BIN)/golangci-lint
GOFUMPT := $(BIN)/gofumpt
GOTESTSUM := $(BIN)/gotestsum
NATSCLI := v0.5.1
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
TEST_TIMEOUT ?= 20m
FUZZTIME ?= 20s
SEEDS ?= 1
# How often powercut cuts.
CUTS ?= 6
# Events of the log that bench-log works on.
EVENTS ?= 1000000
# Arguments passed on to bin/pilot by demo, up and bench, and to bin/powercut.
ARGS ?=

# $(call each,command): runs the command in the folder of every module, also after one has failed.
each = bad=; for module in $(MODULES); do (cd $$module && $(1)) || bad="$$bad $$module"; done; \
	[ -z "$$bad" ] || { echo "$@: failed in$$bad" >&2; exit 1; }

.PHONY: help build test test-unit lint fmt fmt-check vet tidy tidy-check gowork-off floors openapi-check \
	fuzz-seeds fuzz cover model sim judge compat demo up bench bench-log teeth crash powercut tools tools-nats ci clean

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build bin/pilot, one static binary
	CGO_ENABLED=0 go build -C services -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o $(CURDIR)/bin/pilot ./cmd/pilot

test: $(GOTESTSUM) ## All suites of all modules under the race detector, with coverage floors
	@TEST_TIMEOUT=$(TEST_TIMEOUT) .ci/test $(FLOORS)

test-unit: ## The short tests only: no end-to-end suites, no coverage
	@$(call each,go test -short -shuffle=on -timeout $(TEST_TIMEOUT) $$(go list ./... | grep -vE '/(e2e|compat)$$'))

lint: $(LINT) ## golangci-lint, once per module
	@$(call each,$(LINT) run ./...)

fmt: $(GOFUMPT) ## Format all Go files
	$(GOFUMPT) -l -w .

fmt-check: $(GOFUMPT) ## Fail when a Go file is not formatted
	@files=$$($(GOFUMPT) -l .); \
	if [ -n "$$files" ]; then echo "not formatted (make fmt):"; echo "$$files"; exit 1; fi

vet: ## go vet, once per module
	@$(call each,go vet ./...)

tidy: ## go mod tidy in every module
	@$(call each,GOWORK=off go mod tidy)
	@cd $(TOOLS) && GOWORK=off go mod tidy

tidy-check: ## Fail when a go.mod or go.sum is not tidy
	@$(call each,GOWORK=off go mod tidy -diff)
	@cd $(TOOLS) && GOWORK=off go mod tidy -diff

gowork-off: ## Build and vet each module alone, as one that does not know the workspace
	@$(call each,GOWORK=off go build -buildvcs=false ./... && GOWORK=off go vet ./...)

floors: ## Check who may import whom, and what the code may not say
	@cd services && go test -count=1 ./floors

openapi-check: ## Compare the OpenAPI and AsyncAPI documents with their golden files
	@out=$$(cd api && go test -count=1 -v -run 'OpenAPI|AsyncAPI' ./... 2>&1) || { echo "$$out"; exit 1; }; \
	grep -- '^--- PASS' <<<"$$out" || { echo "openapi-check: no golden test ran" >&2; exit 1; }

fuzz-seeds: ## Run every fuzz target on its seeds
	@$(call each,go test -count=1 -run '^Fuzz' ./...)

fuzz: ## Fuzz every target for FUZZTIME each
	@FUZZTIME=$(FUZZTIME) .ci/fuzz $(MODULES)

cover: ## HTML coverage of the last `make test`, and its least covered functions
	@.ci/cover $(MODULES)

model: ## Check the dispatch protocol of docs/model with spin
	@.ci/model

sim: SEEDS = 5
sim: ## Simulated days with every fault: SEEDS seeds from SEED on, HOURS and MESSAGES each; what failing ones leave is in bin/sim
	@go test -C services -c -o $(CURDIR)/bin/sim.test ./sim
	@cd services/sim && rm -f $(CURDIR)/bin/sim.json && status=0 && \
	$(CURDIR)/bin/sim.test -test.run='^TestSeeds$$' -test.timeout=0 -sim.seeds=$(SEEDS) -sim.seed=$(or $(SEED),1) -sim.hours=$(or $(HOURS),24) \
		-sim.messages=$(or $(MESSAGES),3000) -sim.keep=$(CURDIR)/bin/sim -sim.summary=$(CURDIR)/bin/sim.json || status=$$?; \
	cat $(CURDIR)/bin/sim.json; exit $$status

compat: ## Play the clients that customers have against Pilot, and print what held
	@mkdir -p bin && rm -f bin/compat.txt && status=0 && \
	go test -C services -count=1 -run '^TestCompat$$' ./compat -compat.table=$(CURDIR)/bin/compat.txt || status=$$?; \
	cat bin/compat.txt; exit $$status

judge: DIR = bin/sim
judge: ## Hold the recordings that failing seeds left in DIR to the invariants again, after a change of the checks
	@go test -C services -c -o $(CURDIR)/bin/sim.test ./sim
	@cd services/sim && $(CURDIR)/bin/sim.test -test.run='^TestKept$$' -test.v -sim.judge=$(abspath $(DIR))

demo: build ## A finished story in a minute: free ports, simulated gateway and receiver
	bin/pilot demo $(ARGS)

up: build ## Run all roles with demo data on 8080 and 4222, until Ctrl-C
	bin/pilot up --demo --context-file --log-format console $(ARGS)

bench: build ## Measure this machine: acceptance, latency, delivery, a start with a large control plane, fairness (some minutes: it makes a backlog of 100,000)
	bin/pilot bench $(ARGS)

bench-log: build ## Measure on a log of EVENTS events (a million): start, rebuild, audit; 100,000 scheduled messages; a thousand instances; a slow gateway; two dispatchers at rest and one of them killed (minutes, 4 GB of disk)
	bin/pilot bench --figures thousand,slow,resting,failover,start,scheduled,rebuild,audit --events $(EVENTS) $(ARGS)

crash: build ## Kill and stop real processes at every failpoint, SEEDS times
	bin/pilot crash --seeds $(SEEDS) $(ARGS)

powercut: build ## Cut the power under a running Pilot on ext4 and xfs, CUTS times: root, /dev/fuse, loop devices
	go build -C infra -buildvcs=false -o $(CURDIR)/bin/powercut ./powercut/cmd
	bin/powercut -pilot bin/pilot -cuts $(CUTS) $(ARGS)

teeth: ## Take out one protection at a time: a test must notice each time (minutes)
	@cd services && go run ./teeth

tools: $(LINT) $(GOFUMPT) $(GOTESTSUM) ## Build the tools of infra/tools into .bin

$(LINT) $(GOFUMPT) $(GOTESTSUM): $(TOOLS)/go.mod $(TOOLS)/go.sum
	@mkdir -p $(BIN)
	@package=$$(GOWORK=off go -C $(TOOLS) list tool | grep '/$(@F)$$'); \
	echo "go install $$package"; \
	GOWORK=off GOBIN=$(BIN) go -C $(TOOLS) install -trimpath "$$package"
	@touch $@

tools-nats: $(BIN)/nats ## Build the nats CLI, which the runbook uses, into .bin

$(BIN)/nats:
	@mkdir -p $(BIN)
	GOWORK=off GOBIN=$(BIN) go install -trimpath github.com/nats-io/natscli/nats@$(NATSCLI)

ci: ## Every gate, as on a clean machine
	.ci/run

clean: ## Remove what was built; data of `make up` stays
	rm -rf bin coverage
