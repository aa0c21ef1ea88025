# Everything here needs Go, make and git, nothing else; what is built or fetched goes under build/ and the Go caches.
# `make help` lists the targets.

GO ?= go
export GO
# Each module is built as its own go.mod says. go.work is for editors, and for `go test` by hand over several modules.
export GOWORK := off
BUILD := build
TOOLS := $(BUILD)/tools
COLLECTOR := $(BUILD)/otelcol-llm
OTELLLM := $(BUILD)/otelllm

# The modules with code of ours. bench is compiled and linted, and its benchmarks are run by hand. Of those under
# internal/tools these two have code; the others pin versions.
MODULES := . processor/llmclassify connector/llmagentlogs cmd/otelllm cmd/otelllm/internal/page/browser examples test deploy/collector
TOOL_MODULES := internal/tools/release internal/tools/configschema
# The modules that `make test` tests without the race detector. In the last ones nothing runs concurrently; to compile the
# SDKs of examples and test once more takes half as long as all the rest. Each night all are tested with it: an empty list.
PLAIN_MODULES ?= examples test cmd/otelllm/internal/page/browser deploy/collector $(TOOL_MODULES)
EACH := MODULES="$(MODULES)" scripts/each-module
# What needs no race detector is compiled in one way, so that the Collector, Jaeger, the tools, the linter and the tests
# of deploy/ share what they have in common.
PLAIN := CGO_ENABLED=0 GOFLAGS="$(strip $(shell $(GO) env GOFLAGS) -trimpath)"

# Compiles all packages and their tests, and links nothing.
COMPILE := $(GO) list -test -export -f '{{with .Error}}{{.}}{{end}}' ./...

# For each package's tests; a hang ends as a failure that names the test.
TEST_TIMEOUT ?= 10m
# How many packages are tested at a time, and how many tests of each: many wait for a server, a process or a time.
TEST_PACKAGES ?= 4
TEST_PARALLEL ?= 6
TEST = -short -p $(TEST_PACKAGES) -parallel $(TEST_PARALLEL) -timeout $(TEST_TIMEOUT) $(TESTFLAGS) ./...
# The race detector needs a C compiler; .ci/run insists on it.
RACE ?= $(shell if [ "$$($(GO) env CGO_ENABLED)" = 1 ] && command -v "$$($(GO) env CC)" >/dev/null; then echo -race; fi)
# `make lint` has every check of `go vet` and more, in every module. To vet here again takes minutes, for the facts of every
# dependency.
TESTFLAGS ?= -vet=off
# The packages of which `make test` runs a sample of the cases: see internal/sample.
SAMPLED := ./otelllm ./otelllm/classify ./otelllm/internal/httpcall ./otelllm/internal/inferred ./otelllm/internal/kinship \
	./otelllm/internal/redact ./otelllm/internal/wire ./otelllm/responses
FUZZTIME ?= 10s
FUZZ ?=
BENCH ?= .
BENCH_COUNT ?= 1
BENCH_BASE ?=
# What `make apidiff` compares with: a tag or a commit.
BASE ?=
OTLP ?=
# Any value: the demo prints every case.
V ?=
# Folders of packages, or single files, each with its own tests.
MUTANTS ?= otelllm/classify otelllm/internal/sse otelllm/internal/wire processor/llmclassify/internal/trace
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

.PHONY: demo
demo: ## break an agent's stream in every way and read the verdicts; V=1 prints all cases, OTLP=host:port sends them on as well
	@$(PLAIN) scripts/compile demo $(OTELLLM) cmd/otelllm .
	@echo
	@$(OTELLLM) demo
	@echo
	@$(PLAIN) scripts/compile demo $(BUILD)/quickstart test ./quickstart
	@$(BUILD)/quickstart -root . -otlp "$(OTLP)" $(if $(V),-v)
	@echo
	@echo "Every case: make demo V=1. Your own agent: $(OTELLLM) run -- COMMAND"

.PHONY: demo-collector
demo-collector: $(COLLECTOR) ## the same cases through a real Collector
	@$(PLAIN) scripts/compile demo $(BUILD)/quickstart test ./quickstart
	@$(BUILD)/quickstart -root . -collector $(COLLECTOR) -out $(BUILD)/demo-collector -otlp "$(OTLP)" $(if $(V),-v)

.PHONY: demo-jaeger
demo-jaeger: jaeger-has-no-pages $(JAEGER) ## the demo with a real Jaeger, and the links to open; JAEGER=path for a released one, with web pages
	@$(PLAIN) scripts/compile demo-jaeger $(BUILD)/quickstart test ./quickstart
	@$(PLAIN) scripts/compile demo-jaeger $(OTELLLM) cmd/otelllm .
	@$(PLAIN) scripts/compile demo-jaeger $(BUILD)/demo-with-jaeger test ./jaeger
	@$(BUILD)/demo-with-jaeger -root . -jaeger "$(JAEGER)" $(DEMO_JAEGER_FLAGS)

.PHONY: jaeger-has-no-pages
jaeger-has-no-pages:
ifeq ($(JAEGER),$(BUILD)/jaeger)
	@echo "demo-jaeger: the Jaeger that is compiled here answers its API, and has no web pages. For pages:"
	@echo "demo-jaeger:   Jaeger's: download a released Jaeger 2, and make demo-jaeger JAEGER=path/to/jaeger"
	@echo "demo-jaeger:   ours, in seconds: make otelllm, and build/otelllm demo --report demo.html (docs/page.md)"
endif

.PHONY: classify
classify: ## verdicts on traces that you have: IN=traces.jsonl
	@if [ -z "$(IN)" ]; then echo "classify: which traces? make classify IN=traces.jsonl" >&2; exit 2; fi
	@cd cmd/otelllm && $(PLAIN) $(GO) build -o ../../$(BUILD)/otelllm .
	@$(BUILD)/otelllm classify $(IN)

.PHONY: test
test: download ## all tests of all modules, those of the libraries and programs with the race detector; where cases are very many, a sample of them
ifeq ($(RACE),)
	@echo "test: no C compiler, so without the race detector" >&2
endif
	@MODULES="$(filter-out $(PLAIN_MODULES),$(MODULES) $(TOOL_MODULES))" scripts/each-module test $(GO) test $(RACE) $(TEST); status=$$?; \
		MODULES="$(PLAIN_MODULES)" $(PLAIN) scripts/each-module test $(GO) test $(TEST) && exit $$status

.PHONY: test-full
test-full: download ## every case of the tests of which `make test` runs a sample, without the race detector
	@$(PLAIN) $(GO) test -timeout $(TEST_TIMEOUT) $(TESTFLAGS) $(SAMPLED)
	@cd processor/llmclassify && $(PLAIN) $(GO) test -timeout $(TEST_TIMEOUT) $(TESTFLAGS) . ./internal/journal ./internal/property ./internal/recorded ./internal/trace ./internal/verdicts
	@cd examples && $(PLAIN) $(GO) test -timeout $(TEST_TIMEOUT) $(TESTFLAGS) ./retry
	@cd cmd/otelllm && $(PLAIN) $(GO) test -timeout $(TEST_TIMEOUT) $(TESTFLAGS) ./judgewasm ./internal/judge ./internal/proxy ./internal/sessionfiles
	@cd cmd/otelllm && $(PLAIN) $(GO) test -timeout $(TEST_TIMEOUT) $(TESTFLAGS) -run '^TestSameVerdicts$$' .
	@cd test && $(PLAIN) $(GO) test -timeout $(TEST_TIMEOUT) $(TESTFLAGS) ./soak/internal/attack

.PHONY: e2e
e2e: $(COLLECTOR) $(JAEGER) ## the tests with processes: a real Jaeger, two layers of Collectors that crash, Kafka, old traces
	@cd test && $(PLAIN) $(GO) build -o ../$(BUILD)/quickstart ./quickstart
	cd test && OTELCOL_BIN="$(CURDIR)/$(COLLECTOR)" JAEGER_BIN="$(abspath $(JAEGER))" QUICKSTART_BIN="$(CURDIR)/$(BUILD)/quickstart" \
		$(PLAIN) $(GO) test -count=1 -timeout $(TEST_TIMEOUT) $(TESTFLAGS) ./jaeger ./e2e/program ./e2e/fleet

# Of Node only npm is needed: Node itself is among the packages, where it comes as one.
NODE_PACKAGES := examples/node/node_modules/.package-lock.json
.PHONY: node-packages
node-packages: $(NODE_PACKAGES) ## the npm packages of examples/node, and the Node that runs them

$(NODE_PACKAGES): examples/node/package.json examples/node/package-lock.json examples/node/.npmrc
	cd examples/node && npm ci --ignore-scripts --loglevel=error
	@touch $@

.PHONY: node-matrix
node-matrix: $(COLLECTOR) $(NODE_PACKAGES) otelllm ## agents in Node under others' instrumentations, fault by fault, and the incidents, against their pages; UPDATE=1 writes them
	cd test && OTELCOL_BIN="$(CURDIR)/$(COLLECTOR)" OTELLLM_BIN="$(CURDIR)/$(OTELLLM)" REQUIRE_NODE=1 \
		$(PLAIN) $(GO) test -count=1 -timeout $(TEST_TIMEOUT) $(TESTFLAGS) ./e2e/instrumentations ./incidents $(if $(UPDATE),-update)

.PHONY: python-matrix
python-matrix: $(COLLECTOR) otelllm ## agents in Python with otelllm_facts.py, fault by fault, against their page; UPDATE=1 writes it. Needs Debian's python3-httpx and python3-aiohttp
	cd test && OTELCOL_BIN="$(CURDIR)/$(COLLECTOR)" OTELLLM_BIN="$(CURDIR)/$(OTELLLM)" REQUIRE_PYTHON=1 \
		$(PLAIN) $(GO) test -count=1 -timeout $(TEST_TIMEOUT) $(TESTFLAGS) -run Python ./e2e/instrumentations $(if $(UPDATE),-update)

.PHONY: otelllm
otelllm: ## the program otelllm
	cd cmd/otelllm && $(PLAIN) $(GO) build -o ../../$(OTELLLM) .

# Not npm ci: it refuses a lock file with optional packages of other systems that a registry lacks. The versions are those
# of the lock file here, too.
AGENT_PACKAGES := test/agents/node_modules/.package-lock.json
.PHONY: agents-packages
agents-packages: $(AGENT_PACKAGES) ## the published agents that are tried, from npm: 2 GB

$(AGENT_PACKAGES): test/agents/package.json test/agents/package-lock.json test/agents/.npmrc
	cd test/agents && npm install --no-save --ignore-scripts --loglevel=error
	@touch $@

.PHONY: agents-matrix
agents-matrix: otelllm $(AGENT_PACKAGES) ## published agents directly, under otelllm run and by their own telemetry, fault by fault; TESTFLAGS=-short for a few, TESTFLAGS='-run TestTelemetry/codex/r500' for one; UPDATE=1 writes their pages, RECORD=FOLDER what they export
	cd test && OTELLLM_BIN="$(CURDIR)/$(OTELLLM)" $(PLAIN) $(GO) test -count=1 -timeout 150m -parallel 2 $(TESTFLAGS) ./e2e/agents $(if $(UPDATE),-update) \
		$(if $(RECORD),-record "$(abspath $(RECORD))")

.PHONY: agents-matrix-pages
agents-matrix-pages: ## the pages of published agents once more, from what was played before; REPLAY=FOLDER judges what RECORD kept there again
	cd test && $(PLAIN) $(GO) test -count=1 -run 'TestResults|TestReplay' ./e2e/agents -update $(if $(REPLAY),-replay "$(abspath $(REPLAY))")

.PHONY: agents-matrix-short
agents-matrix-short: otelllm ## a few faults of three published agents and of programs in Python, in two minutes: 580 MB of packages
	@scripts/agents-short $(BUILD)/agents-short
	@cd test && AGENT_PACKAGES="$(CURDIR)/$(BUILD)/agents-short" OTELLLM_BIN="$(CURDIR)/$(OTELLLM)" $(PLAIN) \
		$(GO) test -count=1 -timeout 10m -parallel 3 -short -run '^Test(Agents|Telemetry|Programs|CodexOverWebSocket|Hosts)$$/(codex|gemini|continue|_)' $(TESTFLAGS) ./e2e/agents

.PHONY: validate
validate: $(COLLECTOR) $(BUILD)/validate/traces.jsonl ## every file under deploy/collector, by the program it is for
	cd deploy/collector && OTELCOL_BIN="$(CURDIR)/$(COLLECTOR)" DEMO_TRACES="$(CURDIR)/$(BUILD)/validate/traces.jsonl" \
		PROMETHEUS_BIN="$$("$(CURDIR)/scripts/prometheus" "$(CURDIR)/$(TOOLS)/prometheus")" \
		KUBERNETES_SCHEMAS="$$("$(CURDIR)/scripts/npm-packages" kubernetes/schema "$(CURDIR)/$(TOOLS)/kubernetes-schema" "Kubernetes' schemas")" \
		$(PLAIN) $(GO) test -count=1 -timeout 10m -parallel 6 $(TESTFLAGS) ./...
	scripts/check-grafana $(TOOLS)/grafana-schema

# The packages and what draws with them, in one folder outside of the module: Go would look for packages in node_modules.
.PHONY: dashboards-shot
dashboards-shot: $(COLLECTOR) ## draws the dashboards for docs/operate over 8 minutes of traffic; needs npm, Chromium and Prometheus; TEMPO_BIN=path for their traces, too
	@packages=$$(scripts/npm-packages deploy/collector/grafana/shot "$(CURDIR)/$(TOOLS)/dashboards-shot" "the pictures") && test -n "$$packages" && \
	cp deploy/collector/grafana/shot/shot.mjs deploy/collector/grafana/shot/page.jsx "$$packages" && \
	PROMETHEUS_BIN="$$(scripts/prometheus "$(CURDIR)/$(TOOLS)/prometheus")" && test -n "$$PROMETHEUS_BIN" && export PROMETHEUS_BIN && \
	cd deploy/collector && OTELCOL_BIN="$(CURDIR)/$(COLLECTOR)" SHOT_PACKAGES="$$packages" SHOT_OUT="$(CURDIR)/$(BUILD)/dashboards" \
		$(PLAIN) $(GO) test -count=1 -v -timeout 30m -run '^TestDashboardsShot$$' .

# What the demo's agents record. Whether its verdicts are right is for `make demo-collector` to say.
$(BUILD)/validate/traces.jsonl: $(COLLECTOR)
	@echo "validate: running the demo for its traces"
	@cd test && $(PLAIN) $(GO) build -o ../$(BUILD)/quickstart ./quickstart
	@$(BUILD)/quickstart -root . -collector $(COLLECTOR) -out $(BUILD)/validate >$(BUILD)/validate.log 2>&1 || test -s $@ || { cat $(BUILD)/validate.log >&2; exit 1; }

EYES ?= 12m
EYES_SEEDS ?= 1 2
.PHONY: eyes
eyes: $(COLLECTOR) ## known traffic with an outage through the Collector and Prometheus, every number and alert against the truth, in half an hour; EYES=length of the traffic, EYES_SEEDS="1 2", TEMPO_BIN=path for Tempo's part
	cd deploy/collector && for seed in $(EYES_SEEDS); do \
		OTELCOL_BIN="$(CURDIR)/$(COLLECTOR)" EYES="$(EYES)" SEED="$$seed" \
		PROMETHEUS_BIN="$$("$(CURDIR)/scripts/prometheus" "$(CURDIR)/$(TOOLS)/prometheus")" \
		$(PLAIN) $(GO) test -count=1 -v -timeout 60m $(TESTFLAGS) -run 'TestEyes|TestTempoLedger' . || exit 1; done

.PHONY: incidents
incidents: ## scripted incidents and 200 quiet hours played to the alerts by promtool, in half an hour; INCIDENTS_QUIET_HOURS=n, INCIDENTS_SEEDS=n
	cd deploy/collector && INCIDENTS_QUIET_HOURS="$(or $(INCIDENTS_QUIET_HOURS),200)" \
		PROMETHEUS_BIN="$$("$(CURDIR)/scripts/prometheus" "$(CURDIR)/$(TOOLS)/prometheus")" \
		$(PLAIN) $(GO) test -count=1 -timeout 90m $(TESTFLAGS) -run TestIncidentReplay .

.PHONY: soak
soak: $(COLLECTOR) ## many agents against the Collector while it is stopped, killed and starved, in 5 minutes; SOAK=short in 1, SEED=n, SOAKFLAGS=-help
	@cd test && $(PLAIN) $(GO) build -o ../$(BUILD)/soak ./soak
	@$(BUILD)/soak -root . -seed $(SEED) $(if $(filter short,$(SOAK)),-short) $(SOAKFLAGS)

.PHONY: endurance
endurance: $(COLLECTOR) ## half an hour of agents with attackers beside them, kills, a backend that is unwell and a full disk, against bars; SOAK=short in 4 minutes, SEED=n, SOAKFLAGS=-help
	@cd test && $(PLAIN) $(GO) build -o ../$(BUILD)/soak ./soak
	@$(BUILD)/soak -root . -endurance -seed $(SEED) $(if $(filter short,$(SOAK)),-short) $(SOAKFLAGS)

.PHONY: oracle
oracle: ## every client over every stream cut at every byte, what it gave against what is recorded; minutes. ORACLEFLAGS=-help
	@cd test && $(PLAIN) $(GO) build -o ../$(BUILD)/oracle ./oracle
	@$(BUILD)/oracle -seed $(SEED) $(ORACLEFLAGS)

.PHONY: wild
wild: ## the verdicts on answers that people reported in public, counted
	@mkdir -p $(BUILD)
	@$(PLAIN) $(GO) test -count=1 -run '^TestWild$$' -v ./otelllm >$(BUILD)/wild.txt; status=$$?; \
		grep -v -e '^=== ' -e '--- PASS' -e '^PASS' $(BUILD)/wild.txt; exit $$status

.PHONY: lint
lint: $(TOOLS)/golangci-lint ## golangci-lint in all modules: style and mistakes
	@scripts/check-words
	@scripts/check-paths
	@scripts/check-rooms
	@MODULES="$(MODULES) bench $(TOOL_MODULES)" $(PLAIN) scripts/each-module lint "$(CURDIR)/$<" run --config "$(CURDIR)/.golangci.yml" ./...

.PHONY: apidiff
apidiff: $(TOOLS)/apidiff ## how the exported API differs from the newest release, or from BASE=tag; fails if that breaks a promise
	@$(PLAIN) scripts/apidiff "$(CURDIR)/$<" $(BASE)

.PHONY: oldest-go
oldest-go: ## the modules that users require, with the oldest Go that they promise, and the root without the others
	@$(PLAIN) scripts/oldest-go

.PHONY: release-rehearsal
release-rehearsal: $(TOOLS)/builder ## a release in a clone, used from empty folders as its users will: go get, go install, a Collector
	@scripts/release-rehearsal "$(CURDIR)/$<"

.PHONY: licenses
licenses: ## fail if a released module compiles in another one whose licence is not on the list in internal/tools/release/licenses.go
	@cd internal/tools/release && $(PLAIN) $(GO) build -o ../../../$(BUILD)/licenses .
	@$(BUILD)/licenses licenses $$(scripts/release-modules)

.PHONY: workflows-check
workflows-check: $(TOOLS)/actionlint ## actionlint over .github/workflows, and over the workflow that docs/ci.md shows
	@$(TOOLS)/actionlint
	@sed -n '/^```yaml$$/,/^```$$/{/^```/!p}' docs/ci.md | $(TOOLS)/actionlint -stdin-filename docs/ci.md -

.PHONY: release-check
release-check: workflows-check $(TOOLS)/goreleaser $(TOOLS)/builder ## the workflows, .goreleaser.yaml, and a snapshot of the archives and packages for this system; needs Linux
	@$(TOOLS)/goreleaser check
	@$(PLAIN) scripts/check-release $(TOOLS)/goreleaser

# What BINARIES has is as goreleaser leaves it in build/dist.
.PHONY: packages
packages: ## the npm and Python packages, to build/packages: VERSION=0.1.0 BINARIES=folder
	scripts/packages "$(VERSION)" "$(BINARIES)"

.PHONY: packages-check
packages-check: otelllm ## the same for this system, installed into empty folders and used: tests, types, npx otelllm; needs node, npm, Debian's python3-pip, python3-wheel, python3-httpx, python3-aiohttp, python3-tenacity
	@packages=$$(scripts/npm-packages packages/npm/check "$(CURDIR)/$(TOOLS)/npm-check" "the npm package") && test -n "$$packages" && scripts/check-packages "$$packages"

.PHONY: cross
cross: download ## compile every module, with its tests, for Windows and macOS
	@GOOS=windows MODULES="$(MODULES) bench" $(PLAIN) scripts/each-module windows $(COMPILE)
	@GOOS=darwin MODULES="$(CROSS_DARWIN)" $(PLAIN) scripts/each-module darwin $(COMPILE)

.PHONY: fmt
fmt: $(TOOLS)/golangci-lint ## gofumpt over all modules
	@MODULES="$(MODULES) bench $(TOOL_MODULES)" scripts/each-module fmt "$(CURDIR)/$<" fmt --config "$(CURDIR)/.golangci.yml" ./...

.PHONY: generate
generate: $(TOOLS)/mdatagen ## semconv from its registry, the parts of the components from metadata.yaml, the schemas of their configurations
	scripts/generate "$(CURDIR)/$(TOOLS)"

.PHONY: check-generated
check-generated: $(TOOLS)/mdatagen ## fail with the difference if what is generated is stale; touches nothing
	@scripts/check-generated "$(CURDIR)/$(TOOLS)"

.PHONY: bench
bench: $(TOOLS)/benchstat ## benchmarks, peers in bench/: BENCH=pattern BENCH_COUNT=n, BENCH_BASE=file to compare with an earlier build/bench.txt
	@mkdir -p $(BUILD)
	@{ MODULES=". processor/llmclassify connector/llmagentlogs cmd/otelllm bench" scripts/each-module bench $(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(BENCH_COUNT) ./... || echo FAILED; } | tee $(BUILD)/bench.txt
	@! grep -q '^FAILED$$' $(BUILD)/bench.txt
	@$(TOOLS)/benchstat $(BENCH_BASE) $(BUILD)/bench.txt

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME; FUZZ="parts of names or folders" for some of them
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
$(TOOLS)/actionlint: PKG := github.com/rhysd/actionlint/cmd/actionlint
$(TOOLS)/goreleaser: PKG := github.com/goreleaser/goreleaser/v2

$(TOOLS)/builder $(TOOLS)/mdatagen: internal/tools/collector/go.mod
$(TOOLS)/golangci-lint: internal/tools/lint/go.mod
$(TOOLS)/benchstat: internal/tools/bench/go.mod
$(TOOLS)/gremlins: internal/tools/mutants/go.mod
$(TOOLS)/apidiff: internal/tools/apidiff/go.mod
$(TOOLS)/actionlint: internal/tools/actionlint/go.mod
$(TOOLS)/goreleaser: internal/tools/goreleaser/go.mod
$(TOOLS)/builder $(TOOLS)/mdatagen $(TOOLS)/golangci-lint $(TOOLS)/benchstat $(TOOLS)/gremlins $(TOOLS)/apidiff \
$(TOOLS)/actionlint $(TOOLS)/goreleaser:
	@echo "building $(@F), once"
	@mkdir -p $(TOOLS)
	@cd $(<D) && $(PLAIN) $(GO) build -o "$(CURDIR)/$@" $(PKG)
	@touch $@

# The Collector in two steps: the builder writes its sources and go.mod when the manifest or our versions change;
# a change to the processor's code only compiles.
COLLECTOR_SOURCES := $(shell find processor connector otelllm/classify semconv -name '*.go' ! -name '*_test.go' ! -path '*/harness/*')

$(BUILD)/collector/.resolved: deploy/collector/manifest.yaml go.mod processor/llmclassify/go.mod processor/llmclassify/go.sum \
		connector/llmagentlogs/go.mod connector/llmagentlogs/go.sum $(TOOLS)/builder
	@echo "collector: writing its sources, fetching modules"
	@mkdir -p $(@D)
	@$(TOOLS)/builder --config deploy/collector/manifest.yaml --skip-compilation --skip-strict-versioning=false >$(BUILD)/collector-builder.log 2>&1 || \
		{ cat $(BUILD)/collector-builder.log >&2; exit 1; }
	@touch $@

$(COLLECTOR): $(BUILD)/collector/.resolved $(COLLECTOR_SOURCES) scripts/build-collector scripts/compile
	@scripts/build-collector $@

$(BUILD)/jaeger: internal/tools/jaeger/go.mod scripts/build-jaeger scripts/compile
	@scripts/build-jaeger $@
