# kafkalab: "make" alone says what there is.
# Variables: SCENARIOS, MESSAGES, REPEAT, CAP, TESTBED, SYSTEMS, SEED, OUT, RAID10 (see "make bench" in README.md), FUZZTIME, KILLS, POWERCUTS, VOLUME, STEPS, STORMS, STORMTIME, SECTION4KILLS.

GO      ?= go
TESTBED ?=
SCENARIOS ?= fig4-producer fig5-consumer
MESSAGES ?=
REPEAT  ?=
CAP     ?=
SYSTEMS ?=
SEED    ?=
RAID10  ?=
OUT     ?= results/local
FUZZTIME  ?=
KILLS     ?= 1000
POWERCUTS ?= 300
VOLUME    ?= 10000000000
STEPS     ?= 20000000
STORMS    ?= 20
STORMTIME ?= 75s
SECTION4KILLS ?= 200

testbed_flag := $(if $(TESTBED),--testbed $(TESTBED))
scenario_flags := $(foreach s,$(SCENARIOS),--scenario $(s))
system_flags := $(foreach s,$(SYSTEMS),--system $(s))
size_flags   := $(if $(MESSAGES),--messages $(MESSAGES)) $(if $(REPEAT),--repeat $(REPEAT)) $(if $(CAP),--cap $(CAP))
raid_flag    := $(if $(filter-out 0,$(RAID10)),--raid10)
seed_flag    := $(if $(SEED),--seed $(SEED))

# Those that read requests, responses and segments.
long_fuzz    := FuzzRequests|FuzzDecoders|FuzzScanner|FuzzLastSegment|FuzzClosedSegment

.PHONY: help build planned setup test test-hadoop race lint fuzz corpus torture bench smoke smoke-all figures compare paper clean

help: ## say what each target does
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | while IFS="$$(printf '\t')" read -r t d; do printf '  make %-11s %s\n' "$$t" "$$d"; done
	@echo
	@echo '  MESSAGES is how many are sent in one attempt (1000000), REPEAT how often each system is measured (3), CAP the longest that one is measured (45s), where a scenario has no number of its own.'
	@echo '  make bench SCENARIOS=acks                     another question than Figures 4 and 5 (bin/testbed list), at a size of its own'
	@echo '  make bench RAID10=1                           the broker on a RAID 10 of six files (btrfs)'
	@echo '  make bench TESTBED=my-testbed.toml            two real hosts (template: scenarios/testbed.example.toml)'
	@echo '  MESSAGES=10000000 CAP=none REPEAT=2 make bench   the size of the paper (about 110 minutes)'
	@echo '  FUZZTIME=1h make fuzz                            each target for an hour'
	@echo '  KILLS=5000 STEPS=50000000 make torture           for a night'

build: ## build bin/kafka and bin/testbed
	$(GO) build -o bin/ ./kafka/cmd/kafka ./harness/cmd/testbed

setup: ## install the system packages that are missing (Debian, Ubuntu)
	@sh harness/env/setup.sh $(setup_for)

# To measure two hosts behind ssh this machine needs no servers of its own.
bench smoke smoke-all: setup_for = $(if $(TESTBED),$$(sed -n 's/^kind *= *"ssh".*/ssh/p' '$(TESTBED)'))

# Those of the testbed one package at a time: some measure the emulated link, and
# the smoke test runs the whole experiment. The others wait more than they work.
test: setup build ## run every test, those with real RabbitMQ, ActiveMQ, NATS, sshd and namespaces too
	$(GO) test -count=1 -p 1 -timeout 30m ./harness/... ./compare/...
	$(GO) test -count=1 -p 2 -timeout 30m $$($(GO) list ./... | grep -v -e /harness/ -e /compare/)

# Behind a tag, since it fetches 110 MB once (into the user's cache folder).
test-hadoop: setup ## the load on real Hadoop: its local job runner, then HDFS and YARN in a mini cluster
	$(GO) test -tags hadoop -count=1 -v -timeout 20m ./kafka/hadooptest

race: setup build ## the tests of the product and the testbed under the race detector
	GORACE=atexit_sleep_ms=0 $(GO) test -race -count=1 -p 1 -timeout 30m ./kafka/... ./harness/measure/... ./harness/workload/... ./harness/driver/... ./harness/runner/... ./harness/scenario/... ./results/... ./compare/internal/...

lint: ## gofmt, go vet, staticcheck
	@bad=$$(gofmt -l .); if [ -n "$$bad" ]; then echo "gofmt would change:"; echo "$$bad"; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -tags hadoop ./kafka/hadooptest
	$(GO) tool staticcheck ./...
	$(GO) tool staticcheck -tags hadoop ./kafka/hadooptest

# What they find of interest stays in Go's cache and is where the next run goes
# on; what fails is written to testdata/fuzz, and stays.
fuzz: ## run each fuzz target: 10 minutes those of requests, responses and segments, 2 the others
	@for pkg in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    case $$f in $(long_fuzz)) t=10m ;; *) t=2m ;; esac; t=$(or $(FUZZTIME),$$t); \
	    echo "$$pkg $$f for $$t"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $$t -fuzzminimizetime 10x $$pkg || exit 1; done; done

# So that every "go test" runs them, also elsewhere. The cache may hold some of
# a time when the target took other arguments, so another number of lines.
corpus: ## keep 20 small ones of the inputs that "make fuzz" has found of interest, by target, in testdata/fuzz
	@for pkg in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    cache=$$($(GO) env GOCACHE)/fuzz/$$pkg/$$f; kept=$$($(GO) list -f '{{.Dir}}' $$pkg)/testdata/fuzz/$$f; \
	    newest=$$(ls -t "$$cache" 2>/dev/null | head -n 1); [ -n "$$newest" ] || continue; \
	    lines=$$(wc -l < "$$cache/$$newest"); mkdir -p "$$kept"; \
	    for c in $$(find "$$cache" -type f -size -3 | sort); do [ "$$(wc -l < "$$c")" != "$$lines" ] || echo "$$c"; done | \
	      head -n 20 | xargs -r cp -t "$$kept"; done; done

# The same tests as in "make test", at other sizes. Each prints what it did and
# what was lost; the seed that is printed repeats it (KAFKALAB_SEED).
# A test: its pattern, its package, how much of it. A name that no test has any
# more must not pass for a test that passed.
define torture_test
$(GO) test -list '$(1)' $(2) | grep -q '^Test' || { echo 'no test $(1) in $(2)'; exit 1; }
$(3) $(GO) test -count=1 -v -timeout 0 -run '$(1)' $(2)
endef

torture: setup build ## kill a broker 1000 times, cut its power 300 times, 10 GB through 100 connections, a long model test, groups in 40 storms, mirrors and loads killed 200 times each
	@echo '== kill -9, $(KILLS) times'
	$(call torture_test,^TestKill$$,./kafka/kafkatest/torture,KAFKALAB_KILLS=$(KILLS))
	@echo '== loss of power, $(POWERCUTS) times, and a broker that does not flush'
	$(call torture_test,^TestPowerLoss,./kafka/kafkatest/disktest,KAFKALAB_POWERCUTS=$(POWERCUTS))
	@echo '== $(VOLUME) bytes in and out through 100 connections'
	$(call torture_test,^TestResidentMemory$$,./kafka/broker,KAFKALAB_RESIDENT_BYTES=$(VOLUME))
	@echo '== the model of a log, $(STEPS) steps'
	$(call torture_test,^TestModel,./kafka/storage,KAFKALAB_STEPS=$(STEPS))
	@echo '== consumer groups in a storm, $(STORMS) times on each kind of ZooKeeper'
	$(call torture_test,^TestChaos$$,./kafka/kafkatest/chaos,KAFKALAB_CHAOS_RUNS=$(STORMS) KAFKALAB_CHAOS=$(STORMTIME))
	@echo '== a mirror killed at every step, $(SECTION4KILLS) times'
	$(call torture_test,^TestKilledAtEveryStep$$,./kafka/mirror,KAFKALAB_KILLS=$(SECTION4KILLS))
	@echo '== loads killed, $(SECTION4KILLS) times'
	$(call torture_test,^TestPaperR30KilledLoads$$,./kafka/cmd/kafka,KAFKALAB_KILLS=$(SECTION4KILLS))

# What is misspelt is said before anything is installed, made or measured.
planned: build
	@./bin/testbed run $(testbed_flag) $(raid_flag) $(scenario_flags) $(system_flags) $(seed_flag) $(size_flags) --plan >/dev/null

# A run: its scenarios, its size. The hosts are removed however it ends.
define measured
@trap './bin/testbed down $(testbed_flag)' EXIT; trap 'exit 130' INT; trap 'exit 143' TERM; \
./bin/testbed up $(testbed_flag) $(raid_flag) && \
./bin/testbed run $(testbed_flag) $(raid_flag) $(1) $(system_flags) $(seed_flag) $(2) --out $(OUT) --figures
endef

bench: build planned setup ## the paper's experiments: figures 4 and 5, a table of ratios (as root, on a quiet machine; up to 42 minutes)
	$(call measured,$(scenario_flags),$(size_flags))

# The path is tried, nothing is measured: a short look before it will do, and free
# memory is not held, which can take minutes.
tried = --look-time 500ms

smoke: setup build ## the same path, tiny (under 3 minutes)
	$(call measured,--scenario smoke $(tried))

smoke-all: setup build ## every scenario, tiny (up to an hour)
	$(call measured,--scenario smoke-all $(tried))

# The run that the README quotes. RUNS="results/reference/*/" shows all.
RUNS ?= results/reference/20261201T163938Z-fig4-producer-fig5-consumer

compare: build ## the table of ratios against RabbitMQ and ActiveMQ, of the run that the README quotes, or of RUNS
	@between=; for run in $(RUNS); do $$between; if [ -e "$$run/run.json" ]; then ./bin/testbed compare --ratios "$$run" || exit 1; between=echo; fi; done

figures: build ## redraw the figures of results/reference
	@for d in results/reference/*/; do ./bin/testbed plot "$$d" || exit 1; done

paper: build ## judge the paper's claims by results/reference, and write the report there (report.html, REPORT.md)
	@./bin/testbed report results/reference/*/ --out results/reference

clean: ## remove what was built and the local results
	rm -rf bin results/local
