# Every target runs over all modules of modules.txt and prints where its time
# went. The steps themselves are in .ci/steps.

# Run by version, outside of the workspace, so that no go.mod has to require it.
export STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.DEFAULT_GOAL := help

.PHONY: help
help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' Makefile

.PHONY: setup
setup: ## Install the Debian packages that the tests need
	@SETUP=yes .ci/steps setup

.PHONY: test
test: ## The tests of tier 1 of all modules (CONTRIBUTING.md); SETUP=yes installs what is missing first
	@.ci/steps setup tests

.PHONY: thorough
thorough: ## The tests of both tiers, in about half an hour
	@.ci/steps setup thorough

.PHONY: near
near: ## The tests that find most mistakes in a package, in a minute: make near PKG=stores/sqlstore
	@.ci/near $(PKG)

.PHONY: nightly
nightly: ## A slice of tier 2, the one whose row in docs/internals/nightly.tsv is oldest; SLICE=name, SLICE=all
	@.ci/setup && .ci/nightly $(SLICE)

.PHONY: lint
lint: ## gofmt, every module alone with go vet, the types for windows, darwin, freebsd and 32 bits, staticcheck
	@.ci/steps alone lint

.PHONY: vet-systems
vet-systems: ## All checks of go vet for windows, darwin and freebsd; release-check does it, too
	@.ci/steps vet_systems

.PHONY: build
build: ## All modules, and the command into bin/
	@.ci/steps build

.PHONY: bench
bench: ## The core compared with gofrs/flock and channels, with targets; BENCHFLAGS="-rounds 1 -only file"
	@.ci/steps bench

.PHONY: bench-redis
bench-redis: ## One Redis and a quorum of three compared with redsync, redislock and rueidislock, with targets; BENCHFLAGS as above
	@.ci/steps bench_redis

.PHONY: bench-sql
bench-sql: ## Locks in PostgreSQL's and SQLite's tables beside bare statements, with targets; BENCHFLAGS as above
	@.ci/steps bench_sql

.PHONY: bench-coord
bench-coord: ## Locks in etcd and ZooKeeper compared with bare requests and with the locks of their clients; BENCHFLAGS="-only etcd"
	@.ci/steps bench_coord

.PHONY: bench-command
bench-command: ## Start and memory of the command, compared with flock(1), with targets; BENCHFLAGS as above
	@.ci/steps bench_command

.PHONY: bench-go
bench-go: ## Go's benchmarks of every module; BENCH=regexp chooses
	@.ci/steps bench_go

.PHONY: plots
plots: ## The tables and pictures of the benchmarks in the pages, from lab/plots/published.json; PLOTSFLAGS="-merge run.json" adds a run made with -json
	@.ci/steps plots

.PHONY: certified
certified: ## The table of docs/certified.md, from the certificates in docs/certified; go run ./lab/certified makes those
	@go test ./lab/certificate -run 'TestPage$$' -count=1 -args -update

.PHONY: soak
soak: ## Half of the rows of stores under faults for about ten seconds each; the commit chooses which
	@.ci/steps soak

.PHONY: soak-http
soak-http: ## 64 clients over HTTP in Go, Python, Node and shells, under faults, and clients and servers that are broken on purpose; SOAKFLAGS="-workers 16"
	@.ci/steps soak_http

.PHONY: chaos
chaos: ## Every store under faults, promised and measured; CHAOSFLAGS="-only redis -for 5m -append chaos/runs/runs.csv"
	@.ci/steps chaos

.PHONY: fuzz
fuzz: ## Every fuzz target for FUZZTIME (10s)
	@.ci/steps fuzz

.PHONY: test-windows
test-windows: ## What needs no server, as Windows programs under Debian's wine (docs/windows.md)
	@.ci/test-windows

.PHONY: test-dynalite
test-dynalite: ## The suite of dynamostore on dynalite, which npm brings
	@.ci/test-dynalite

.PHONY: test-fake-gcs
test-fake-gcs: ## The suite of s3store on fake-gcs-server, a stand-in for Google Cloud Storage
	@.ci/test-fake-gcs

.PHONY: test-kubernetes
test-kubernetes: ## The suite of leasestore on an API server of Kubernetes, which is built from its modules; KUBE_APISERVER=path takes a built one
	@.ci/test-kubernetes

.PHONY: test-leaderelection
test-leaderelection: ## The leader election of client-go, together with leasestore
	@.ci/test-leaderelection

.PHONY: clients
clients: ## The packages of the clients into dist/clients, with npm and Python's build; TYPES=yes also compiles against the types
	@.ci/clients

.PHONY: site
site: ## The pages as a site into dist/site, with Debian's hugo and mkdocs, and a check of links
	@.ci/site

.PHONY: test-terraform
test-terraform: ## examples/terraform-backend together with a terraform that is installed; TERRAFORM=tofu takes OpenTofu
	@go test -count=1 -tags terraform -run TestTerraform -v ./examples/terraform-backend

.PHONY: golden
golden: ## Accept changes of the API (internal/house/testdata/api) and of the comments in the book, and lower the ceilings
	@go test ./internal/house -run 'TestAPI$$|TestCeilings$$|TestBook$$' -count=1 -args -update

.PHONY: tidy
tidy: ## go mod tidy
	@.ci/steps tidy

.PHONY: release
release: ## Archives, packages, image, SBOM and checksums into dist/, twice; VERSION=v1.2.3 SIGNING_KEY=file; TARGETS=linux/amd64 TWICE=no for a try
	@.ci/steps dist

.PHONY: test-release
test-release: ## Install what is in dist/ in a clean Debian, and use it; needs root
	@.ci/test-release

.PHONY: man
man: ## The manual page, padlock.1, into bin/
	@mkdir -p bin && go run ./cmd/padlock man >bin/padlock.1 && echo "bin/padlock.1: man -l bin/padlock.1"

.PHONY: release-check
release-check: ## Before tags: tests of every module alone and of client-go's leader election, builds from a module proxy made of this tree, API compared with the last tag, known holes
	@.ci/steps vet_systems test_alone leaderelection release
