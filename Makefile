# Sluice: `make` alone lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
GOFLAGS_BUILD := -trimpath -ldflags "-s -w -X main.version=$(VERSION)"
export CGO_ENABLED ?= 0

# Packages whose tests need neither a network of clients nor Java.
UNIT := ./broker/... ./catalog/... ./cmd/... ./group/... ./log/... ./metrics/... ./protocol/... ./txn/... ./tests/arch/...

.PHONY: help build run check lint test test-unit test-diff test-e2e test-clients test-streams test-peers crash fuzz bench bench-peers bench-compare docs tools clean

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-15s %s\n", $$1, $$2}'

build: ## build the static binary bin/sluice
	go build $(GOFLAGS_BUILD) -o bin/sluice ./cmd/sluice

run: build ## build, then serve on 127.0.0.1:9092 with data under ./data
	exec ./bin/sluice serve

lint: ## gofmt, go vet, staticcheck
	@unformatted=$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go')); \
		if [ -n "$$unformatted" ]; then echo "not gofmt-ed:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	go tool staticcheck ./...
	cd tests/e2e && go vet ./... && go tool staticcheck ./...

test-unit: ## unit tests of every package, under the race detector and without it
	CGO_ENABLED=1 go test -race -timeout 15m $(UNIT)
	go test -timeout 10m $(UNIT)

test-diff: ## the answers of every API, compared with those recorded from Apache Kafka
	go test -count=1 -timeout 10m -skip TestKafka ./tests/diff ./tests/server

test-e2e: build tools ## end-to-end tests: the real binary with kcat, franz-go and sarama
	cd tests/e2e && SLUICE_BIN=$(CURDIR)/bin/sluice go test -count=1 -parallel 8 -timeout 15m ./...

test-clients: build tools ## every mainstream client against Apache Kafka and Sluice; writes docs/compatibility.md
	CGO_ENABLED=1 go run ./tests/clients/matrix # librdkafka needs cgo

test-streams: build ## a Kafka Streams program, exactly once, while it and the broker are killed (ROUNDS, default 10)
	SLUICE_ORACLE=require go test -count=1 -timeout 60m -v ./tests/streams -sluice $(CURDIR)/bin/sluice -rounds $${ROUNDS:-10}

test-peers: ## the test suites of Kafka clients themselves against Sluice; writes docs/peers.md
	go run ./tests/peers

check: lint test-unit ## what can be checked without starting the binary

test: check test-diff test-e2e test-clients test-streams ## everything that guards the project; installs what it needs

crash: build ## 100 rounds of SIGKILL under load, every acknowledged record checked
	cd tests/e2e && SLUICE_BIN=$(CURDIR)/bin/sluice SLUICE_CRASH_ROUNDS=$${ROUNDS:-100} go test -count=1 -timeout 60m -run 'Crash' -v ./...

fuzz: ## fuzz every target for FUZZTIME (default 1m) each; T=name runs one
	.ci/fuzz $${FUZZTIME:-1m} $${T:-}

bench: ## micro-benchmarks with bytes/s and allocations
	go test -run '^$$' -bench $${T:-.} -benchmem -count $${COUNT:-1} $(UNIT)

bench-peers: build ## Sluice beside Apache Kafka in one run; writes docs/performance.md, .json and .svg (an hour; ONLY=regexp and ROUNDS=n shorten it)
	go run ./tests/bench -binary bin/sluice -rounds $${ROUNDS:-3} -only "$${ONLY:-}" -out docs/performance

bench-compare: ## benchstat of the working tree against REF (default main)
	.ci/bench-compare $${REF:-main} $${T:-.}

docs: ## generate what is generated in docs/
	go run ./cmd/sluice/config/gendoc > docs/config.md

tools: ## install what the tests need from Debian's packages (kcat, Java, Maven, Node, Python)
	.ci/tools

clean: ## remove what was built
	rm -rf bin .cache
