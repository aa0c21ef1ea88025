# Everything here needs Go, make and git, nothing else; what is built or fetched goes under build/ and the Go caches.
# `make help` lists the targets.

GO ?= go
export GO
# Each module is built as its own go.mod says. go.work is for editors, and for `go test` by hand over several modules.
export GOWORK := off
BUILD := build
TOOLS := $(BUILD)/tools
COLLECTOR := $(BUILD)/otelcol-llm

# The modules with code of ours. Those under internal/tools only pin versions; bench is compiled and linted, and its
# benchmarks are run by hand.
MODULES := . processor/llmclassify examples deploy/collector
EACH := MODULES="$(MODULES)" scripts/each-module
# What needs no race detector is compiled in one way, so that the Collector, Jaeger, the tools, the linter and the tests
# of deploy/ share what they have in common.
PLAIN := CGO_ENABLED=0 GOFLAGS="$(strip $(shell $(GO) env GOFLAGS) -trimpath)"

# For each package's tests; a hang ends as a failure that names the test.
TEST_TIMEOUT ?= 10m
# The race detector needs a C compiler; .ci/run insists on it.
RACE ?= $(shell if [ "$$($(GO) env CGO_ENABLED)" = 1 ] && command -v "$$($(GO) env CC)" >/dev/null; then echo -race; fi)
TESTFLAGS ?=
FUZZTIME ?= 10s
FUZZ ?=
BENCH ?= .
BENCH_COUNT ?= 1
BENCH_BASE ?=
# What `make apidiff` compares with: a tag or a commit.
BASE ?=
OTLP ?=
# Folders of packages, or single files, each with its own tests.
MUTANTS ?= otelllm/classify otelllm/internal/sse otelllm/internal/wire processor/llmclassify/internal/hold
SOAK ?=
SEED ?= 1
SOAKFLAGS ?=
ORACLEFLAGS ?=
# The modules that `make cross` compiles for macOS.
CROSS_DARWIN ?= $(MODULES) bench
IN ?=
JAEGER ?= $(BUILD)/jaeger
DEMO_JAEGER_FLAGS ?=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

# Compiled as the Collector is, so that what both are made of is compiled once.
.PHONY: demo
demo: $(COLLECTOR) ## break an agent's stream in every way and read the verdicts; OTLP=host:port sends them on as well
	@echo "demo: compiling the agent"
	@cd examples && $(PLAIN) $(GO) build -o ../$(BUILD)/quickstart ./quickstart
	@$(BUILD)/quickstart -root . -otlp "$(OTLP)"

.PHONY: demo-jaeger
demo-jaeger: $(COLLECTOR) $(JAEGER) ## the demo with a real Jaeger, and the links to open; JAEGER=path for a released one, with web pages
	@echo "demo-jaeger: compiling the agent"
	@cd examples && $(PLAIN) $(GO) build -o ../$(BUILD)/ ./quickstart ./diagnose
	@cd examples && $(PLAIN) $(GO) build -o ../$(BUILD)/demo-with-jaeger ./jaeger
	@$(BUILD)/demo-with-jaeger -root . -jaeger "$(JAEGER)" $(DEMO_JAEGER_FLAGS)

.PHONY: classify
classify: $(COLLECTOR) ## verdicts on traces that you have: IN=traces.jsonl, OTLP JSON
	@if [ -z "$(IN)" ]; then echo "classify: which traces? make classify IN=traces.jsonl" >&2; exit 2; fi
	@cd examples && $(PLAIN) $(GO) build -o ../$(BUILD)/ ./diagnose
	@$(BUILD)/diagnose -root . $(IN)

.PHONY: test
test: download ## all tests of all modules, with the race detector
ifeq ($(RACE),)
	@echo "test: no C compiler, so without the race detector" >&2
endif
	@$(EACH) test $(GO) test $(RACE) -timeout $(TEST_TIMEOUT) $(TESTFLAGS) ./...
ifneq ($(RACE),)
	@echo "test: the rules over every combination of facts, without the race detector"
	@$(PLAIN) $(GO) test -timeout $(TEST_TIMEOUT) -run '^TestEvery' ./otelllm/classify
endif

.PHONY: e2e
e2e: $(COLLECTOR) $(JAEGER) ## the tests with processes: a real Jaeger, two layers of Collectors that crash, Kafka, old traces
	@cd examples && $(PLAIN) $(GO) build -o ../$(BUILD)/quickstart ./quickstart
	cd examples && OTELCOL_BIN="$(CURDIR)/$(COLLECTOR)" JAEGER_BIN="$(abspath $(JAEGER))" QUICKSTART_BIN="$(CURDIR)/$(BUILD)/quickstart" \
		$(GO) test $(RACE) -count=1 -timeout $(TEST_TIMEOUT) $(TESTFLAGS) ./jaeger ./diagnose ./e2e/fleet

# Of Node only npm is needed: Node itself is among the packages, where it comes as one.
NODE_PACKAGES := examples/node/node_modules/.package-lock.json
.PHONY: node-packages
node-packages: $(NODE_PACKAGES) ## the npm packages of examples/node, and the Node that runs them

$(NODE_PACKAGES): examples/node/package.json examples/node/package-lock.json examples/node/.npmrc
	cd examples/node && npm ci --ignore-scripts --loglevel=error
	@touch $@

.PHONY: node-matrix
node-matrix: $(COLLECTOR) $(NODE_PACKAGES) ## agents in Node under others' instrumentations, fault by fault, and the incidents, against their pages; UPDATE=1 writes them
	cd examples && OTELCOL_BIN="$(CURDIR)/$(COLLECTOR)" REQUIRE_NODE=1 \
		$(GO) test $(RACE) -count=1 -timeout $(TEST_TIMEOUT) $(TESTFLAGS) ./e2e/instrumentations ./incidents $(if $(UPDATE),-update)

.PHONY: validate
validate: $(COLLECTOR) $(BUILD)/validate/traces.jsonl ## every file under deploy/collector, by the program it is for
	cd deploy/collector && OTELCOL_BIN="$(CURDIR)/$(COLLECTOR)" DEMO_TRACES="$(CURDIR)/$(BUILD)/validate/traces.jsonl" \
		PROMETHEUS_BIN="$$("$(CURDIR)/scripts/prometheus" "$(CURDIR)/$(TOOLS)/prometheus")" \
		KUBERNETES_SCHEMAS="$$("$(CURDIR)/scripts/npm-packages" kubernetes/schema "$(CURDIR)/$(TOOLS)/kubernetes-schema" "Kubernetes' schemas")" \
		$(PLAIN) $(GO) test -count=1 -timeout 5m $(TESTFLAGS) ./...
	scripts/check-grafana $(TOOLS)/grafana-schema

# What the demo's agents record. Whether its verdicts are right is for `make demo` to say.
$(BUILD)/validate/traces.jsonl: $(COLLECTOR)
	@echo "validate: running the demo for its traces"
	@cd examples && $(PLAIN) $(GO) build -o ../$(BUILD)/quickstart ./quickstart
	@$(BUILD)/quickstart -root . -out $(BUILD)/validate >$(BUILD)/validate.log 2>&1 || test -s $@ || { cat $(BUILD)/validate.log >&2; exit 1; }

.PHONY: soak
soak: $(COLLECTOR) ## many agents against the Collector while it is stopped, killed and starved, in 5 minutes; SOAK=short in 1, SEED=n, SOAKFLAGS=-help
	@cd examples && $(PLAIN) $(GO) build -o ../$(BUILD)/soak ./soak
	@$(BUILD)/soak -root . -seed $(SEED) $(if $(filter short,$(SOAK)),-short) $(SOAKFLAGS)

.PHONY: endurance
endurance: $(COLLECTOR) ## half an hour of agents with attackers beside them, kills, a backend that is unwell and a full disk, against bars; SOAK=short in 4 minutes, SEED=n, SOAKFLAGS=-help
	@cd examples && $(PLAIN) $(GO) build -o ../$(BUILD)/soak ./soak
	@$(BUILD)/soak -root . -endurance -seed $(SEED) $(if $(filter short,$(SOAK)),-short) $(SOAKFLAGS)

.PHONY: oracle
oracle: ## every client over every stream cut at every byte, what it gave against what is recorded; minutes. ORACLEFLAGS=-help
	@cd examples && $(PLAIN) $(GO) build -o ../$(BUILD)/oracle ./oracle
	@$(BUILD)/oracle -seed $(SEED) $(ORACLEFLAGS)

.PHONY: lint
lint: $(TOOLS)/golangci-lint ## golangci-lint in all modules: style and mistakes
	@scripts/check-words
	@MODULES="$(MODULES) bench" $(PLAIN) scripts/each-module lint "$(CURDIR)/$<" run --config "$(CURDIR)/.golangci.yml" ./...

.PHONY: apidiff
apidiff: $(TOOLS)/apidiff ## how the exported API differs from the newest release, or from BASE=tag; fails if that breaks a promise
	@$(PLAIN) scripts/apidiff "$(CURDIR)/$<" $(BASE)

.PHONY: oldest-go
oldest-go: ## the modules that users require, with the oldest Go that they promise, and the root without the others
	@$(PLAIN) scripts/oldest-go

.PHONY: cross
cross: download ## compile every module, with its tests, for Windows and macOS
	@GOOS=windows MODULES="$(MODULES) bench" $(PLAIN) scripts/each-module windows $(GO) vet ./...
	@GOOS=darwin MODULES="$(CROSS_DARWIN)" $(PLAIN) scripts/each-module darwin $(GO) vet ./...

.PHONY: fmt
fmt: $(TOOLS)/golangci-lint ## gofumpt over all modules
	@MODULES="$(MODULES) bench" scripts/each-module fmt "$(CURDIR)/$<" fmt --config "$(CURDIR)/.golangci.yml" ./...

.PHONY: generate
generate: $(TOOLS)/mdatagen ## semconv from its registry, the processor's parts from metadata.yaml
	scripts/generate "$(CURDIR)/$(TOOLS)"

.PHONY: check-generated
check-generated: $(TOOLS)/mdatagen ## fail with the difference if what is generated is stale; touches nothing
	@scripts/check-generated "$(CURDIR)/$(TOOLS)"

.PHONY: bench
bench: $(TOOLS)/benchstat ## benchmarks, peers in bench/: BENCH=pattern BENCH_COUNT=n, BENCH_BASE=file to compare with an earlier build/bench.txt
	@mkdir -p $(BUILD)
	@{ MODULES=". processor/llmclassify bench" scripts/each-module bench $(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(BENCH_COUNT) ./... || echo FAILED; } | tee $(BUILD)/bench.txt
	@! grep -q '^FAILED$$' $(BUILD)/bench.txt
	@$(TOOLS)/benchstat $(BENCH_BASE) $(BUILD)/bench.txt

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME; FUZZ=part of a name or folder for some of them
	@$(PLAIN) scripts/fuzz $(FUZZTIME) "$(FUZZ)"

.PHONY: mutants
mutants: $(TOOLS)/gremlins ## changes the rules one token at a time and fails if their tests do not notice; MUTANTS=folder or file for some of them
	@scripts/mutants "$(CURDIR)/$<" $(MUTANTS)

.PHONY: collector
collector: $(COLLECTOR) ## the Collector with llm_classify, to build/otelcol-llm

.PHONY: download
download: ## fetch all modules, so that what follows needs no network
	@$(EACH) download $(GO) mod download

.PHONY: clean
clean: ## remove build/
	rm -rf $(BUILD)

# Tools, each built from source at the version that its go.mod pins.
$(TOOLS)/builder: PKG := go.opentelemetry.io/collector/cmd/builder
$(TOOLS)/mdatagen: PKG := go.opentelemetry.io/collector/cmd/mdatagen
$(TOOLS)/golangci-lint: PKG := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(TOOLS)/benchstat: PKG := golang.org/x/perf/cmd/benchstat
$(TOOLS)/gremlins: PKG := github.com/go-gremlins/gremlins/cmd/gremlins
$(TOOLS)/apidiff: PKG := golang.org/x/exp/cmd/apidiff

$(TOOLS)/builder $(TOOLS)/mdatagen: internal/tools/collector/go.mod
$(TOOLS)/golangci-lint: internal/tools/lint/go.mod
$(TOOLS)/benchstat: internal/tools/bench/go.mod
$(TOOLS)/gremlins: internal/tools/mutants/go.mod
$(TOOLS)/apidiff: internal/tools/apidiff/go.mod
$(TOOLS)/builder $(TOOLS)/mdatagen $(TOOLS)/golangci-lint $(TOOLS)/benchstat $(TOOLS)/gremlins $(TOOLS)/apidiff:
	@echo "building $(@F), once"
	@mkdir -p $(TOOLS)
	@cd $(<D) && $(PLAIN) $(GO) build -o "$(CURDIR)/$@" $(PKG)
	@touch $@

# The Collector in two steps: the builder writes its sources and go.mod when the manifest or our versions change;
# a change to the processor's code only compiles.
COLLECTOR_SOURCES := $(shell find processor otelllm/classify semconv -name '*.go' ! -name '*_test.go')

$(BUILD)/collector/.resolved: deploy/collector/manifest.yaml go.mod processor/llmclassify/go.mod processor/llmclassify/go.sum $(TOOLS)/builder
	@echo "collector: writing its sources, fetching modules"
	@mkdir -p $(@D)
	@$(TOOLS)/builder --config deploy/collector/manifest.yaml --skip-compilation --skip-strict-versioning=false >$(BUILD)/collector-builder.log 2>&1 || \
		{ cat $(BUILD)/collector-builder.log >&2; exit 1; }
	@touch $@

$(COLLECTOR): $(BUILD)/collector/.resolved $(COLLECTOR_SOURCES) scripts/build-collector scripts/compile
	@scripts/build-collector $@

$(BUILD)/jaeger: internal/tools/jaeger/go.mod scripts/build-jaeger scripts/compile
	@scripts/build-jaeger $@
