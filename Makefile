# Needs Go, git and make; the race detector also wants a C compiler and is
# left out, with a note, where Go finds none.

GO           ?= go
LINT_VERSION := 2.15.0
FUZZTIME     ?= 30s
BENCHTIME    ?= 1s
BENCHSCALE   ?= 100
BENCHJSON    ?= bin/bench.json
CALIBRATE_CAMPAIGNS ?= 2000
CALIBRATE_SEED      ?= 1
TESTFLAGS    ?=
RACE         := $(if $(filter 1,$(shell $(GO) env CGO_ENABLED)),-race)
NO_RACE_NOTE  = $(if $(RACE),,@echo 'note: no C compiler found, testing without the race detector' >&2)

.DEFAULT_GOAL := help

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## /{printf "  %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build bin/qualify: one commit gives the same bytes in every folder
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/qualify ./cmd/qualify

demo: build ## Replay the built-in corpus in all modes, in a fresh store; ends with a verdict, whichever it is
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && trap 'exit 130' INT TERM && \
		bin/qualify run builtin:demo --store "sqlite:$$dir/demo.db" && echo && \
		{ bin/qualify gate demo --policy builtin:simulation --store "sqlite:$$dir/demo.db" || [ $$? -lt 3 ]; }

test: ## Run all tests with the race detector
	$(NO_RACE_NOTE)
	$(GO) test $(RACE) -timeout 12m $(TESTFLAGS) ./...

test-long: ## Run the long tests too (QUALIFY_LONG=1, tag long), then each fuzz target for FUZZTIME
	$(NO_RACE_NOTE)
	QUALIFY_LONG=1 $(GO) test $(RACE) -tags long -timeout 60m $(TESTFLAGS) ./...
	@$(MAKE) --no-print-directory fuzz

fuzz: ## Run each fuzz target for FUZZTIME (30s)
	@grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sed 's|/[^/]*:func | |' | sort -u | \
	while read -r dir target; do \
		echo "fuzz $$dir $$target"; \
		$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$dir" </dev/null || exit 1; \
	done

lint: ## Run golangci-lint at the pinned version
	@for bin in golangci-lint "$$($(GO) env GOPATH)/bin/golangci-lint"; do \
		if "$$bin" version --short 2>/dev/null | grep -qx 'v\?$(LINT_VERSION)'; then exec "$$bin" run --allow-parallel-runners ./...; fi; \
	done; \
	exec $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$(LINT_VERSION) run --allow-parallel-runners ./...

bench: ## Measure whole commands in one table, and JSON in BENCHJSON (BENCHSCALE=100 percent)
	@mkdir -p $(dir $(BENCHJSON))
	QUALIFY_BENCH_SCALE=$(BENCHSCALE) QUALIFY_BENCH_JSON=$(abspath $(BENCHJSON)) \
		$(GO) test -run '^$$' -bench '^BenchmarkQualify$$' -benchtime 1x -timeout 120m ./cmd/qualify

bench-parts: ## Run the benchmarks of single packages (BENCHTIME=1s)
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./engine/...

calibrate: ## Judge simulated campaigns of known truth and write docs/calibration.md (CALIBRATE_CAMPAIGNS=2000 CALIBRATE_SEED=1; 10 minutes)
	$(GO) test -count=1 -run '^TestCalibrate$$' -timeout 120m ./evaluator/gate -calibrate $(abspath docs/calibration.md) \
		-calibrate.campaigns $(CALIBRATE_CAMPAIGNS) -calibrate.seed $(CALIBRATE_SEED)

golden: ## Rewrite golden files, command scripts and docs/requirements.md from the code
	@dirs=$$(grep -rlE --include='*_test.go' 'flag\.Bool\("update"' . | xargs -n1 dirname | sort -u); \
	for dir in $$dirs; do $(GO) test "$$dir" -update || exit 1; done
	UPDATE_SCRIPTS=1 $(GO) test ./cmd/qualify

clean: ## Remove what the build made
	rm -rf bin

.PHONY: help build demo test test-long fuzz lint bench bench-parts calibrate golden clean
