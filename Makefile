# `make` prints the targets. `make run` and `make test` do all set-up by themselves.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GOLANGCI_VERSION := v2.5.0
BIN := bin
LAKE := lake
SHARED := ../shared
FLINK := $(CURDIR)/.cache/flink-jars

.PHONY: help setup build run test lint unit notebooks ingest-bench bench-kernel bench-run accuracy ablation own-accuracy exact-accuracy question-accuracy ns3-backend clustering what-if failures beam flink cluster-test flink-test transport-accuracy large large-exact growth bench-transports clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

setup: ## install what building needs: a C++ compiler for DuckDB, where there is none
	@.ci/setup

build: setup ## build bin/parsimon
	@go build -buildvcs=false -o $(BIN)/parsimon ./pipeline/cmd/parsimon

beam: setup ## build bin/parsimon-beam, for Apache Beam runners, and its boot program
	@cd pipeline/cmd/parsimon-beam && go build -buildvcs=false -o ../../../$(BIN)/parsimon-beam . && \
	 go build -buildvcs=false -o ../../../$(BIN)/parsimon-beam-boot github.com/apache/beam/sdks/v2/go/container

run: build ## the main job: estimate the example (256 hosts), show its table and one more query
	@$(BIN)/parsimon run small --lake $(LAKE)
	@echo
	@echo 'parsimon query slowdown_by_service --lake $(LAKE)'
	@$(BIN)/parsimon query slowdown_by_service --lake $(LAKE)

test: setup lint unit notebooks ## everything CI runs: lint, all tests and the notebooks

unit: flink
	@go test -timeout 20m ./...
	@cd pipeline/cmd/parsimon-beam && PARSIMON_FLINK=$(FLINK) go test -timeout 20m ./...

notebooks: build ## run the notebooks top to bottom; with their pictures they stand in .cache/pictures then
	@mkdir -p .cache/pictures
	@.ci/notebooks $(BIN)/parsimon .cache/pictures

lint: ## golangci-lint, pinned
	@GOBIN="$(CURDIR)/.cache/$(GOLANGCI_VERSION)"; \
	 if [ ! -x "$$GOBIN/golangci-lint" ]; then \
	   echo "installing golangci-lint $(GOLANGCI_VERSION) (once, a few minutes)"; \
	   GOFLAGS= GOBIN="$$GOBIN" go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION); \
	 fi; \
	 "$$GOBIN/golangci-lint" run ./... && cd pipeline/cmd/parsimon-beam && "$$GOBIN/golangci-lint" run ./...

flink: ## install what the tests on Flink need: Java, Maven and Flink's jars, where they lack (make test does it)
	@.ci/setup-flink $(FLINK)

cluster-test: build flink ## on a Flink cluster of its own, a task manager and a worker killed, against a local run (minutes; SCENARIO=, PASSES=, PARTITIONS=, KEEP=0)
	@.ci/cluster-test $(BIN)/parsimon $(FLINK)

flink-test: setup flink ## the same on Flink within one process, nothing killed (make test does it with 16 hosts)
	@cd pipeline/cmd/parsimon-beam && PARSIMON_LONG=1 PARSIMON_FLINK=$(FLINK) go test -timeout 20m -count 1 -run TestSameRowsOnFlink -v .

bench-kernel: build ## the link kernel against the reference link simulator, alternating (needs ../shared)
	@.ci/bench-kernel $(BIN)/parsimon $(SHARED)

bench-transports: ## what each transport costs the link kernel, next to DCTCP, taking turns
	@.ci/bench-transports

bench-run: build ## a whole estimate against the reference's, alternating (needs ../shared)
	@.ci/bench-run $(BIN)/parsimon $(SHARED)

ingest-bench: ## ingest a synthetic day of VPC flow logs, 10 million records, against its truth (minutes)
	@PARSIMON_LONG=1 go test -timeout 60m -count 1 -run TestIngestDay -v ./pipeline

accuracy: build ## estimators against ns-3 on every shared scenario, as a table (needs ../shared)
	@.ci/accuracy $(BIN)/parsimon $(SHARED)

ablation: build ## what each ingredient of estimator flow is worth, against ns-3 (minutes; needs ../shared)
	@ESTIMATORS='flow;flow --passes 1;flow --passes 3;flow --ablate feeder;flow --ablate round-trip;flow --ablate nic-waits;flow --ablate waits;flow --ablate marks;flow --ablate damping;independent' \
	 .ci/accuracy $(BIN)/parsimon $(SHARED) 7 47 95 145 1001

own-accuracy: build ## estimators against --exact on the shipped accuracy and parking-lot scenarios, as tables (minutes; SHORT=1, ESTIMATORS="independent;flow", LAKE=DIR)
	@.ci/own-accuracy $(BIN)/parsimon

exact-accuracy: ## the whole-network simulation against ns-3, several seeds, and DCQCN and TIMELY (minutes; needs ../shared)
	@PARSIMON_LONG=1 go test -timeout 60m -count 1 -run 'TestNetworkAgainstNS3|TestTransportsAgainstNS3' -v ./simkernel

question-accuracy: ## answers about flows outside the trace, leave-one-out against ns-3, as a table (minutes; needs ../shared)
	@PARSIMON_LONG=1 go test -timeout 60m -count 1 -run TestQuestionAccuracy -v ./pipeline

transport-accuracy: build ## estimate against --exact for every transport, p99 by size next to the paper's (minutes; needs ../shared; TRANSPORTS="hpcc", LOADS="45%", LAKE=DIR)
	@.ci/transport-accuracy $(BIN)/parsimon $(SHARED)

ns3-backend: build ## link cases in ns-3 against the link kernel: time, FCTs case by case, errors (minutes; needs ../shared; TRANSPORTS="dctcp", FLOWS=5000)
	@.ci/ns3-backend $(BIN)/parsimon $(SHARED)

clustering: build ## what clustering saves and costs, against ns-3, as a table (needs ../shared; SHORT=1, SETTINGS="5% 10%", ESTIMATORS=flow, REFERENCE=1)
	@.ci/clustering $(BIN)/parsimon $(SHARED)

what-if: build ## the second answer against the first: cases, processor time, rows; the screening, a sweep (minutes; SHORT=1: no sweep)
	@.ci/what-if $(BIN)/parsimon

failures: build ## errors with one random cable down, ten draws, against --exact (minutes; DRAWS=2)
	@.ci/failures $(BIN)/parsimon

large: build ## 6,144 hosts for 1 s and 5 s: time by stage, memory, disk, as a table (long; SHORT=1, DURATIONS="1s", WAYS="--passes 1", LAKE=DIR)
	@.ci/large $(BIN)/parsimon

large-exact: build ## 0.2 s of the 6,144 hosts against --exact, by flow size (long; SHORT=1)
	@EXACT=1 .ci/large $(BIN)/parsimon

growth: build ## how cost grows with hosts, seconds and flows: a table, and a picture in .cache/pictures (long; SHORT=1)
	@mkdir -p .cache/pictures
	@.ci/growth $(BIN)/parsimon .cache/pictures/growth.svg

clean: ## remove what was built (not the lake)
	@rm -rf $(BIN)
