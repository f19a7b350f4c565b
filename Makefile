# kubectl-etcdmember. 'make help' lists the targets.
SHELL := /usr/bin/env bash -o pipefail
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --match 'v*' --dirty 2>/dev/null || echo v0.1.0-dev)
COMMIT  ?= $(shell git rev-parse HEAD 2>/dev/null)
DATE    ?= $(shell git log -1 --format=%cI 2>/dev/null)
PKG     := github.com/etcdmember/kubectl-etcdmember
LDFLAGS := -s -w -X $(PKG)/pkg/version.Version=$(VERSION) -X $(PKG)/pkg/version.Commit=$(COMMIT) -X $(PKG)/pkg/version.Date=$(DATE)

# One setting for every build: they share the build cache, and the lab's images need static binaries.
export CGO_ENABLED := 0
export GOFLAGS     := -trimpath

BINARIES := $(notdir $(wildcard cmd/*))
GO_FILES := $(shell git ls-files -co --exclude-standard '*.go' 2>/dev/null | grep -v zz_generated)
LAB      := go run ./test/lab/cmd/lab

# step prints what is being done, and how long it took.
define step
	@printf '==> %s\n' "$(1)"; start=$$(date +%s); $(2); code=$$?; printf '    %s: %s after %ss\n' "$(1)" "$$([ $$code = 0 ] && echo done || echo FAILED)" "$$(( $$(date +%s) - start ))"; exit $$code
endef

##@ Two commands

.PHONY: demo
demo: build ## Bring up the lab (or use KUBECONFIG) and show a three-member etcd that publishes itself
	$(call step,demo,PATH="$(CURDIR)/bin:$$PATH" go run ./test/demo)

.PHONY: test
test: test-unit test-lab ## Pass every test; brings up the lab (or uses KUBECONFIG)

##@ Build

.PHONY: build
build: $(BINARIES:%=bin/%) ## Build all binaries into bin/

.PHONY: FORCE
bin/%: FORCE
	@go build -ldflags '$(LDFLAGS)' -o $@ ./cmd/$*

.PHONY: generate
generate: ## Write deepcopy, CRDs and the command reference anew
	go tool controller-gen object paths=./pkg/apis/...
	go tool controller-gen crd:maxDescLen=1024 paths=./pkg/apis/... output:crd:dir=config/crd
	go run ./hack/docs docs/reference

.PHONY: fmt
fmt: ## Format Go files
	go tool goimports -local $(PKG) -w $(GO_FILES)

##@ Test

.PHONY: test-unit
test-unit: ## Run the tests that need neither root nor a cluster
	$(call step,unit tests,go test ./cmd/... ./config/... ./pkg/... ./test/house/... ./test/krew/...)

# Tests that do harm which no API can do. Without the lab they would fail, and say so.
NEEDS_LAB := ^(TestThread|TestAgent|TestAgentOlderEtcd|TestLive|TestLiveMembership|TestLiveOldVersions)$$

.PHONY: test-lab
test-lab: ## Run the tests on the lab, or, with KUBECONFIG, those that a cluster of your own can pass
ifeq ($(and $(KUBECONFIG),$(if $(filter 1,$(ETCDMEMBER_LAB)),,own)),)
	@$(LAB) up
	$(call step,lab tests,go test -p 1 -count=1 -timeout 45m ./test/lab/... ./test/e2e/...)
else
	@$(LAB) build k8s etcd37
	@echo "==> on the cluster of KUBECONFIG; left out, since they need the lab: the lab's own tests, and $(NEEDS_LAB)"
	$(call step,tests on your cluster,go test -count=1 -timeout 45m -skip '$(NEEDS_LAB)' ./test/e2e/...)
endif

.PHONY: bench
bench: build ## Measure the budgets against their rivals, in one run; brings up the lab
	@$(LAB) up
	ETCDMEMBER_LAB=1 go test -run '^$$' -bench . -benchtime 10x -timeout 60m ./test/bench/...

# How long each fuzz target runs.
FUZZTIME ?= 30s

# go test -list runs a package's TestMain, which for some brings up the lab: only packages that have targets are asked.
.PHONY: fuzz
fuzz: ## Run every fuzz target, each for FUZZTIME (30s)
	@found=; for dir in $(sort $(dir $(shell grep -l '^func Fuzz' $(filter %_test.go,$(GO_FILES))))); do \
		targets=$$(go test -list '^Fuzz' ./$$dir) || { echo "$$targets"; exit 1; }; \
		for target in $$(grep '^Fuzz' <<<"$$targets"); do \
			found=1; echo "==> $$target of $$dir for $(FUZZTIME)"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) ./$$dir || exit 1; \
		done; \
	done; [ -n "$$found" ] || { echo "no fuzz targets were found"; exit 1; }

##@ Verify

.PHONY: verify
verify: verify-format verify-vet verify-staticcheck verify-api verify-generated verify-tidy ## Check format, code, API types, generated files and modules

.PHONY: verify-format
verify-format:
	$(call step,format,out=$$(go tool goimports -local $(PKG) -l $(GO_FILES)); [ -z "$$out" ] || { echo "not formatted: run 'make fmt'"; echo "$$out"; false; })

.PHONY: verify-vet
verify-vet:
	$(call step,go vet,go vet ./...)

.PHONY: verify-staticcheck
verify-staticcheck:
	$(call step,staticcheck,go tool staticcheck ./...)

.PHONY: verify-api
verify-api:
	$(call step,API types,go build -C hack/tools/kal -o $(CURDIR)/bin/tools/kal . && bin/tools/kal ./pkg/apis/...)

.PHONY: verify-generated
verify-generated:
	$(call step,generated files,./hack/verify-generated.sh)

.PHONY: verify-tidy
verify-tidy:
	$(call step,modules,for m in $$(git ls-files '*go.mod'); do (cd $$(dirname $$m) && go mod tidy -diff) || { echo "run 'go mod tidy' in $$(dirname $$m)"; exit 1; }; done)

##@ Lab

.PHONY: lab-up
lab-up: ## Start a real Kubernetes on this machine (root, Debian)
	@$(LAB) up

.PHONY: lab-down
lab-down: ## End it and all that it started
	@$(LAB) down

.PHONY: lab-status
lab-status: ## Say whether it runs, and how to reach it
	@$(LAB) status

##@ Help

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*##"} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-zA-Z0-9_-]+:.*##/ {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: clean
clean: ## Remove what was built here; the cache below the user's cache directory stays
	rm -rf bin dist
