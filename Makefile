# `make` prints the targets. `make run` and `make test` install what they lack.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GOLANGCI_VERSION := v2.5.0
# Linters of the two small modules: those that do not analyze all packages that a module depends on. The others take
# 160 s of processor time for the SDKs of three clouds, and 4 s without them.
SMALL_LINT := --enable-only containedctx,depguard,errcheck,errorlint,funlen,ineffassign,lll,misspell,revive,unconvert,unused
BIN := bin
LAKE := lake
SHARED := ../shared
FLINK := $(CURDIR)/.cache/flink-jars
S3_SERVER := $(CURDIR)/.cache/s3/versitygw
CATALOGS := $(CURDIR)/.cache/catalogs
# Flags and arguments of a measurement: --short to try it, --write to write its page of datasets/results.
ARGS :=

.PHONY: help
help: ## print this list
	@awk -F':.*## ' '/^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  make %-19s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Use
.PHONY: run picture build beam publish setup clean
run: build ## build, and show the method on the 256-host example: its steps, and the three estimators side by side
	@$(BIN)/parsimon tour small --lake $(LAKE)

picture: run ## draw the picture of the README, datasets/example.svg
	@.ci/setup-notebooks
	@.ci/picture $(BIN)/parsimon $(LAKE) datasets/example.svg

# With fewer collections of the compiler's heap, a large package takes 12.3 instead of 14.4 s of processor time (medians of
# three).
build: setup ## build bin/parsimon
	@GOGC=400 go build -buildvcs=false -ldflags "$$(.ci/version)" -o $(BIN)/parsimon ./pipeline/cmd/parsimon

beam: setup ## build bin/parsimon-beam for Apache Beam runners, and its boot program
	@cd pipeline/cmd/parsimon-beam && go build -buildvcs=false -o ../../../$(BIN)/parsimon-beam . && \
	 go build -buildvcs=false -o ../../../$(BIN)/parsimon-beam-boot github.com/apache/beam/sdks/v2/go/container

publish: setup ## build bin/parsimon-publish, which "parsimon publish" runs: Iceberg tables in directories and buckets
	@cd pipeline/cmd/parsimon-publish && go build -buildvcs=false -o ../../../$(BIN)/parsimon-publish .

setup: ## install a C++ compiler, which DuckDB needs, if there is none
	@.ci/setup

clean: ## remove what was built, but not lakes
	@rm -rf $(BIN)

##@ Test
.PHONY: test test-more tools unit checks unit-beam unit-publish lint notebooks publish-readers flink chromium s3 gcs-test flink-test cluster-test exact-accuracy tcp-ns3 twins race fuzz browser-test sampling-test ingest-test faults mutation
# Two go commands at once would compile the same packages twice. So the program is built first, while Chromium and the
# notebooks' environment are downloaded, and the notebooks run beside the tests.
test: setup ## the tests and the notebooks; in CI also make test-more
	@$(MAKE) --no-print-directory -j2 build downloads
	@$(MAKE) --no-print-directory -j2 unit notebooks
	@if [ -n "$${CI:-}" ]; then $(MAKE) --no-print-directory test-more; fi

.PHONY: downloads
downloads: # one after the other, because both may call apt-get
	@.ci/setup-notebooks
	@.ci/setup-chromium

test-more: setup ## lint; checks; the tests of Beam, of published tables and of their readers; nights that are killed
	@$(MAKE) --no-print-directory -j2 lint tools
	@$(MAKE) --no-print-directory checks
	@$(MAKE) --no-print-directory unit-beam unit-publish publish-readers

tools: ## install all that the tests need: Java, jars of Flink and for Spark, Chromium, Python environments
	@.ci/setup-flink $(FLINK)
	@.ci/setup-chromium
	@.ci/setup-notebooks
	@.ci/setup-readers
	@.ci/setup-catalogs
	@.ci/setup-s3

# The longest packages come first. Otherwise one of them runs alone at the end. make lint runs go vet.
LONGEST := ./pipeline/cmd/parsimon ./stages/ingest ./pipeline
# The tests that make checks runs instead of make unit. It also runs package pipeline/faults.
CHECKS := TestNewcomers|TestPeakMemoryOnHostileSizes|TestCompressedBombs|TestDamagedFixtures|$(\
	)TestKilledRunContinues|TestThousandsOfFiles|TestManyServices|TestAccuracyOfModels|TestCoverage|TestCompareCoverage|$(\
	)TestBootstrapCoverage|TestIntervalsOfIndependentCoverOtherDraws|TestBiasOfWindows|$(\
	)TestIndependentAgainstNS3|TestFlowAgainstNS3
# glibc returns a page to the kernel at almost every release of memory by DuckDB, and takes it again. Without that,
# and with fewer collections of Go's heap, two tests that ask DuckDB took 6.4 instead of 7.7 s of processor time.
unit: setup chromium ## the tests of the main module but make checks
	@tmp=$$(.ci/memory-tmp); trap 'rm -rf "$$tmp"' EXIT; \
	 TMPDIR=$$tmp MALLOC_TRIM_THRESHOLD_=67108864 MALLOC_TOP_PAD_=1048576 GOGC=400 \
	 go test -vet=off $$(.ci/linker) -timeout 60m -skip '^($(CHECKS))$$' $(LONGEST) \
	 $$(go list ./... | grep -v '^parsimon/pipeline/faults$$')

checks: setup ## faults, hostile sizes, accuracy: what takes long, in its short form
	@go test -vet=off $$(.ci/linker) -timeout 60m ./pipeline/faults
	@go test -vet=off $$(.ci/linker) -timeout 60m -run '^($(CHECKS))$$' \
	 $$(grep -rlE --include='*_test.go' '^func ($(CHECKS))\(' . | xargs dirname | sort -u)

unit-beam: setup flink ## the tests of Beam, on Flink too
	@cd pipeline/cmd/parsimon-beam && PARSIMON_FLINK=$(FLINK) go test -timeout 60m ./...

unit-publish: setup s3 ## the tests of published tables, with a server of the S3 protocol
	@cd pipeline/cmd/parsimon-publish && PARSIMON_S3_SERVER=$(S3_SERVER) go test -timeout 60m ./...

lint: setup ## golangci-lint, pinned, built once
	@GOBIN="$(CURDIR)/.cache/$(GOLANGCI_VERSION)"; \
	 if [ ! -x "$$GOBIN/golangci-lint" ]; then \
	   echo "installing golangci-lint $(GOLANGCI_VERSION) (once, a few minutes)"; \
	   GOFLAGS= GOBIN="$$GOBIN" go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION); \
	 fi; \
	 "$$GOBIN/golangci-lint" run ./... && cd pipeline/cmd/parsimon-beam && "$$GOBIN/golangci-lint" run $(SMALL_LINT) ./... && \
	 cd ../parsimon-publish && "$$GOBIN/golangci-lint" run $(SMALL_LINT) ./...

notebooks: build ## run the notebooks but published.ipynb; the results are in .cache/pictures
	@.ci/setup-notebooks
	@mkdir -p .cache/pictures
	@.ci/notebooks $(BIN)/parsimon .cache/pictures

publish-readers: build publish s3 ## published tables by DuckDB, pyiceberg, polars and Spark; three nights that are killed; published.ipynb
	@.ci/setup-readers
	@.ci/setup-catalogs
	@.ci/setup-notebooks
	@cd pipeline/cmd/parsimon-publish && PARSIMON_S3_SERVER=$(S3_SERVER) PARSIMON_CATALOG_SERVERS=$(CATALOGS) \
	 go test -short -timeout 30m -run 'Catalog|Rest|Namespace' ./publisher
	@.ci/publish-readers $(BIN) .cache/published
	@.cache/readers/venv/bin/python .ci/nights $(BIN) .cache/nights

flink: ## install Java, Maven and the jars that the tests on Flink need
	@.ci/setup-flink $(FLINK)

chromium: ## install Chromium, which the tests of reports need
	@.ci/setup-chromium

s3: ## install the server of the S3 protocol that tests of buckets need
	@.ci/setup-s3

gcs-test: setup ## publishing to Google Cloud Storage and ingest from it, with the emulator fake-gcs-server (minutes)
	@GOFLAGS= GOBIN=$(CURDIR)/.cache/gcs go install github.com/fsouza/fake-gcs-server@v1.56.1
	@cd pipeline/cmd/parsimon-publish && PARSIMON_GCS_SERVER=$(CURDIR)/.cache/gcs/fake-gcs-server \
	 go test -count 1 -run GoogleCloud -v ./publisher

flink-test: setup flink ## 256 hosts on Flink in one process (minutes; make unit-beam does it with 16)
	@cd pipeline/cmd/parsimon-beam && PARSIMON_LONG=1 PARSIMON_FLINK=$(FLINK) go test -timeout 60m -count 1 -run TestSameRowsOnFlink -v .

cluster-test: build flink ## a Flink cluster with killed workers against a local run (minutes; SCENARIO= PASSES= PARTITIONS= KEEP=0)
	@pipeline/cmd/parsimon-beam/cluster-test $(BIN)/parsimon $(FLINK)

browser-test: setup chromium ## every kind of report in Chromium on a screen and a phone, with hostile names (minutes)
	@PARSIMON_LONG=1 go test -timeout 30m -count 1 -run 'TestReport' -v ./pipeline/cmd/parsimon

exact-accuracy: ## the whole-network simulation against ns-3, several seeds and transports; what warning buffers names (minutes; needs ../shared)
	@PARSIMON_LONG=1 go test -timeout 60m -count 1 -run 'TestNetworkAgainstNS3|TestTransportsAgainstNS3' -v ./simkernel/network
	@PARSIMON_LONG=1 go test -timeout 60m -count 1 -run TestBuffersWarning -v ./pipeline/cmd/parsimon

tcp-ns3: ## TCP against Debian's ns-3 3.37, which it installs: FCTs and drops (minutes)
	@test -e /usr/include/ns3/internet-module.h || (apt-get update && apt-get install -y libns3-dev) || true
	@PARSIMON_LONG=1 go test -timeout 60m -count 1 -run TestTCPAgainstNS3 -v ./simkernel/network

twins: ## all random cases of both simulators and of their second implementations, of which make test has some each day (minutes)
	@PARSIMON_LONG=1 go test -timeout 60m -count 1 -skip NS3 ./simkernel/network ./simkernel/linkcase

race: setup ## the race detector over all tests in their short forms (hours)
	@go test -race -short -timeout 3h ./...

# Each importer, the scenario file, the state of lakes and packs, SELECTs, the kernel: arbitrary input, FUZZTIME each.
# Minimizing new inputs takes up to a minute each, and slow targets would do nothing else.
FUZZTIME := 30s
FUZZ := stages/ingest:FuzzFormats stages/ingest:FuzzIngestCSV stages/topology/format:FuzzTopologyJSON stages/topology/format:FuzzTopologyCSV \
	stages/topology/format:FuzzSONiC stages/topology/format:FuzzBatfish stages/topology/format:FuzzYAML \
	stages/topology/format:FuzzLLDP stages/topology/format:FuzzCabling stages/topology/format:FuzzContainerlab \
	stages/topology/format:FuzzMinigraph stages/topology/format:FuzzNS3 stages/topology/format:FuzzHtsim \
	stages/topology/format:FuzzGraphML stages/topology/format:FuzzGML stages/topology/format:FuzzRows \
	stages/topology/format:FuzzSuzieQ pipeline/scenario:FuzzLoadScenario pipeline/lake:FuzzManifest \
	pipeline/lake:FuzzState pipeline/cache:FuzzPack pipeline/bundle:FuzzUnpack pipeline/cmd/parsimon:FuzzParseLinkCase \
	stages/linksim:FuzzBlocks queries/duckdb:FuzzLock simkernel/linkcase:FuzzKernelAgainstTwin \
	stages/workload/jobs:FuzzTrace
fuzz: setup ## fuzz every target (FUZZTIME=30s each)
	@for t in $(FUZZ); do echo "$$t"; go test -run '^$$' -fuzz "^$${t#*:}\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x ./$${t%:*}; done

faults: setup ## killed processes, failing disks, damaged bytes, hostile sizes, commands at once (PARSIMON_FAULTS_TIME=3h)
	@PARSIMON_LONG=1 PARSIMON_FAULTS_TIME=$${PARSIMON_FAULTS_TIME:-3h} go test -timeout 24h -count 1 -parallel 1 -v ./pipeline/faults
	@PARSIMON_LONG=1 go test -timeout 1h -count 1 -run TestPeakMemoryOnHostileSizes -v ./pipeline/cmd/parsimon
	@PARSIMON_LONG=1 go test -timeout 1h -count 1 -run TestKilledRunContinues -v ./pipeline

mutation: setup ## small faults in stages and simkernel that their own short tests do not find (hours; ARGS="--mutants 40 --seed 7")
	@go run ./pipeline/cmd/mutation $(ARGS) ./stages/... ./simkernel/...

ingest-test: ## every format of logs by SQL and without it, and two hundred damaged copies of each (an hour)
	@PARSIMON_LONG=1 go test -timeout 4h -count 1 -run 'TestRegular|TestDamagedFixtures' -v ./stages/ingest

sampling-test: ## estimates from windows: coverage, changes by common windows, a trace that is asked every hour (minutes)
	@PARSIMON_LONG=1 go test -timeout 60m -count 1 -run 'TestCoverage|TestCompareCoverage|TestHourlyIngest' -v ./pipeline/sampling ./pipeline/cmd/parsimon

##@ Measure (minutes to hours; ARGS="--short" tries one, ARGS="--write" writes its page of datasets/results)
MEASUREMENTS := headline paper loads lengths independent-coverage accuracy own-accuracy constants honesty held-out bench-exact forecast days
.PHONY: $(MEASUREMENTS)
.PHONY: pictures
pictures:
	@.ci/setup-notebooks
headline: ## every figure of README and PERFORMANCE, and the references alternately (hours; ARGS=--short: half an hour)
paper: pictures ## the paper's evaluation again: datasets/PAPER.md (a night; ARGS=--short: 15 minutes of the short form; a new start goes on)
loads: ## the load of the busiest link of the shipped scenarios, asked and drawn
lengths: ## the error of independent by the length of the workload, 0.1 to 10 s
independent-coverage: ## 95% intervals of independent, over 200 drawn workloads of five kinds
accuracy: ## estimators against ns-3 on the shared scenarios (needs ../shared)
own-accuracy: ## estimators against --exact on the shipped scenarios
constants: ## unusual transport constants, against --exact
honesty: ## warnings and intervals of the default against its errors (needs ../shared)
held-out: ## the same on networks and traffic of other kinds, on which nothing was chosen, against --exact
bench-exact: ## processor time of two passes of link cases and of the whole network, alternating (needs ../shared)
days: pictures ## flow logs of generated days: the bytes of each link in each minute against the truth (minutes)
forecast: ## the time that a run predicts beside the time that it takes, twenty scenarios
$(MEASUREMENTS): build
	@go run ./pipeline/cmd/measure $@ --parsimon $(BIN)/parsimon --shared $(SHARED) $(ARGS)
.PHONY: bench-ingest
bench-ingest: setup ## ingest of five formats beside DuckDB's plain query, and nfdump if installed: speed, memory (RECORDS=2000000)
	@PARSIMON_RECORDS=$(or $(RECORDS),2000000) go test -run '^$$' -bench BenchmarkIngest -benchtime 1x -timeout 60m ./pipeline/workloads
.PHONY: bench-publish
bench-publish: setup s3 ## publish of table slowdowns to a local S3 server: seconds, bytes sent, publishing again (ROWS=10000000)
	@cd pipeline/cmd/parsimon-publish && PARSIMON_S3_SERVER=$(S3_SERVER) PARSIMON_ROWS=$(or $(ROWS),10000000) \
	 go test -run '^$$' -bench BenchmarkPublish -benchtime 1x -timeout 60m ./publisher
