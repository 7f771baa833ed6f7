# `make help` lists the targets: it prints the text behind the two hashes.

GO          ?= go
BIN         := bin/queuegate
VERSION     ?= $(shell git -c safe.directory='*' describe --tags --always --dirty 2>/dev/null || echo dev)
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
CADDY       := github.com/caddyserver/caddy/v2/cmd/caddy@v2.11.9
CADDY_DIR   ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/queuegate/caddy-v2.11.9
FUZZTIME    ?= 20s
SEED        ?=
FOR         ?=
TOPOLOGY    ?=
ARGS        ?=

.DEFAULT_GOAL := help
.PHONY: help build run test test-caddy test-shop-servers test-manifests race bench bench-million bench-line chaos fuzz lint vuln check-docs demo-stampede image \
        fmt-check vet staticcheck golangci

help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# The version comes in by a flag and not from the checkout that the toolchain sees, so that a copy without
# its history, or one that belongs to another user, builds the same way.
build: ## Build bin/queuegate: static, no C compiler needed
	CGO_ENABLED=0 $(GO) build -buildvcs=false -trimpath -ldflags '-X main.version=$(VERSION)' -o $(BIN) ./cmd/queuegate

run: build ## Gate, small shop and embedded Redis on this machine, e.g. make run ARGS='--crowd 50'
	$(BIN) demo $(ARGS)

# Four tests of a package at a time, however few the cores: most of them wait for a gate, a Redis or a browser.
test: ## Run every test; first installs what is missing (Debian, as root) or says what to install
	@.ci/need gcc redis-server git curl nginx haproxy wrk systemd-analyze prometheus chromium
	$(GO) test -timeout 10m -parallel 4 ./...

test-caddy: ## Run the test that needs a real Caddy, which takes minutes to build, once, into your cache
	@.ci/need gcc redis-server git
	@test -x $(CADDY_DIR)/caddy || GOBIN=$(CADDY_DIR) $(GO) install $(CADDY)
	CADDY=$(CADDY_DIR)/caddy $(GO) test -tags caddy -timeout 5m -run ThroughCaddy ./cmd/queuegate

test-manifests: ## Build and check what is in examples/kubernetes and examples/compose; compiles for minutes, once
	cd examples/check && $(GO) vet . && $(GO) test -timeout 15m .

test-shop-servers: ## Run the example shop's tests against a PostgreSQL and a RabbitMQ of Debian
	@.ci/need gcc redis-server git postgresql rabbitmq-server
	$(GO) test -tags servers -timeout 5m -run 'WithPostgreSQL|ThroughRabbitMQ' ./examples/shop

race: ## Run the tests under the race detector, but for those that mostly drive other programs
	@.ci/need gcc redis-server git curl nginx haproxy wrk systemd-analyze prometheus chromium
	CGO_ENABLED=1 $(GO) test -race -timeout 20m -parallel 4 -skip 'TestInABrowser|TestEveryMutantIsSeen' ./...

bench: build ## Measure the gate against others side by side (10 minutes; ARGS=-short: 90 s), build/bench/table.md
	@.ci/need gcc redis-server git wrk nginx haproxy
	@test -x $(CADDY_DIR)/caddy || GOBIN=$(CADDY_DIR) $(GO) install $(CADDY)
	@mkdir -p build/bench
	$(GO) build -o build/bench/bench ./cmd/bench
	$(GO) test -c -o build/bench/line.test ./queue
	build/bench/bench -gate $(BIN) -line build/bench/line.test -caddy $(CADDY_DIR)/caddy $(ARGS)

bench-million: build ## A million people join, wait and get in, in real time: 12 minutes, build/bench/million.md
	@.ci/need gcc redis-server git
	@mkdir -p build/bench
	$(GO) build -o build/bench/bench ./cmd/bench
	build/bench/bench million -gate $(BIN) $(ARGS)

bench-line: ## Measure what each call of the line costs Redis, with 10,000 and 2,000,000 waiting
	@.ci/need redis-server
	$(GO) test ./queue -run '^$$' -bench '^BenchmarkLine$$' -benchtime 1x -timeout 30m

# One run where any of these is given; else one of each kind, and what must leave nothing behind, at length.
chaos: ## Break gates, Redis and shop under a crowd: SEED=1 FOR=1m (10m: a soak) TOPOLOGY=alone|sentinel|cluster
	@.ci/need redis-server git
	QG_CHAOS_SEED='$(SEED)' QG_CHAOS_FOR='$(FOR)' QG_CHAOS_TOPOLOGY='$(TOPOLOGY)' \
		$(GO) test -tags chaos -count=1 -v -timeout 120m -run '^Test$(if $(SEED)$(FOR)$(TOPOLOGY),Chaos,.*)AtLength$$' ./cmd/queuegate

fuzz: ## Run every fuzz target for FUZZTIME (20s), two at a time
	@GO='$(GO)' FUZZTIME='$(FUZZTIME)' .ci/fuzz

lint: fmt-check vet staticcheck golangci ## gofmt, go vet, staticcheck, and golangci-lint where it is installed

vuln: ## Look for known vulnerabilities in what we call (asks the Go vulnerability database)
	$(GO) run $(GOVULNCHECK) ./...

check-docs: ## Compare the documentation with the code: keys, commands, metrics, rights, figures, examples
	@.ci/need gcc redis-server git curl nginx haproxy prometheus
	$(GO) test -count=1 -timeout 10m -run '$(DOCS)' ./config ./queue ./proxy/... ./token ./cmd/queuegate ./examples/...

demo-stampede: build ## 2,000 visitors and 100 in stock, with and without the gate, side by side (about 2 minutes)
	@.ci/need redis-server
	CGO_ENABLED=0 $(GO) build -buildvcs=false -trimpath -o bin/shop ./examples/shop
	$(GO) run ./examples/shop/stampede $(ARGS)

image: ## Build the container image, or without a Docker engine its build steps by hand
	@GO='$(GO)' VERSION='$(VERSION)' .ci/image

# Parts of lint, apart so that each can fail under its own name.

fmt-check:
	@unformatted=$$(gofmt -l .) || exit 1; \
	if [ -n "$$unformatted" ]; then \
		echo "not formatted by gofmt (run: gofmt -w .):" >&2; echo "$$unformatted" >&2; exit 1; \
	fi

vet:
	$(GO) vet ./...

staticcheck:
	$(GO) run $(STATICCHECK) ./...

golangci:
	@if command -v golangci-lint >/dev/null 2>&1; then \
		echo golangci-lint run; golangci-lint run; \
	else \
		echo "golangci-lint is not installed: .golangci.yml was not applied"; \
	fi

# The tests that read documentation, by name.
DOCS := README|Readme|TheGuide|PublicSurface|AsDeclared|TheExampleHolds|TheDescription|Recipes|IsExplained|ExampleFiles|ScaleOutExamples|MinimalExample|VectorsAre|^Example
