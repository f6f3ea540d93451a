.PHONY: help demo test test-all quick api tables test-redis test-scripts test-interop test-python test-report check fix sim histories model bench bench-python

# Most tests wait for servers and leases: more of them than cores run side by side.
export RUST_TEST_THREADS ?= 12

help:
	@echo "make demo    both modes on servers of this machine: a table, and a report in target/demo (ARGS=...)"
	@echo "make test    the whole test suite, with real servers and, if there is an engine, containers"
	@echo "make test-all  the whole suite, every promise on every testbed, 20,000 seeds, the full search of the models"
	@echo "make quick   unit tests, models, 200 fresh seeds, the promises on one server and on a quorum"
	@echo "make api     write docs/api.txt, the list of the public API, anew"
	@echo "make tables  write the tables of the pages anew"
	@echo "make test-redis  a part of the tests on real servers, on Debian's Redis 7 instead of Valkey"
	@echo "make test-scripts a part of the tests on real servers, with locks taken by script alone"
	@echo "make test-interop locks shared with Java, Go, Node and Python clients, which are fetched if need be"
	@echo "make test-python the package for Python: pytest on real servers, its types (ARGS=... for pytest)"
	@echo "make test-report the lab's report in a real browser, which is fetched if need be (100 MB)"
	@echo "make sim     20,000 seeds of the simulation (SEEDS=n, and FRESH=n drawn anew), or one with its trace (SEED=n)"
	@echo "make histories  what holders believed in 1,000 fresh seeds, judged by a linearizability checker that is not ours (HISTORIES=n)"
	@echo "make model   the full search of the models"
	@echo "make bench   beside other lock crates and languages, into docs/BENCHMARKS.md: 50 minutes (ONLY=P1,P5; QUICK=1)"
	@echo "make bench-python  beside lock clients for Python, into docs/PYTHON.md (ARGS='--rounds 1 --seconds 0.3')"
	@echo "make check   format, lints, documentation, licences"
	@echo "make fix     format, and apply what the lints suggest"

demo: .cargo-is-there
	scripts/get-server
	# A report is of one comparison: that of the last time goes.
	@rm -rf target/demo
	cargo run --release --package quorumlock-lab --bin quorumlock-lab -- compare --report target/demo $(ARGS)

# Without the optional ones only the tests of TLS, of clocks that are set, of etcd, of the report's
# page in a browser and of the alerts are skipped; without the commit of the version before, those of
# two versions side by side.
test: .cargo-is-there
	scripts/get-server
	-scripts/get-redis
	-scripts/get-faketime
	-scripts/get-etcd
	-scripts/get-browser
	-scripts/get-promtool
	-scripts/get-previous-version
	scripts/build-test-image
	cargo test --workspace --all-features --no-run
	@echo "make test: what computes runs beside what waits; each group prints its output when it ends"
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target --keep-going .test-compute .test-wait

# A test of the house checks that each program of tests is in one of the groups, and that those which
# compute start no server.
COMPUTE = house linearizable public_api quick sim
WAIT = admission clean cli cluster commands config containers fencing flood interop lab linearizable_servers \
	memory_nodes members permissions ping promises reach recipes replicated scenarios sentinel servers \
	services telemetry testing watchdog wire

.PHONY: .test-compute .test-wait
# At a lower priority: the others run against timers.
.test-compute:
	RUST_TEST_THREADS=2 nice -n 5 cargo test --workspace --all-features --no-fail-fast $(COMPUTE:%=--test %)

.test-wait:
	cargo test --workspace --all-features --no-fail-fast --lib --bins $(WAIT:%=--test %)
	cargo test --workspace --all-features --doc

# What `make test` leaves out, too.
test-all: test
	cargo test --workspace --all-features --test promises -- --ignored
	$(MAKE) test-report sim model

# What a change to the library breaks first. The same features as all tests.
quick: .cargo-is-there
	scripts/get-server
	cargo test --workspace --all-features --lib --test quick
	SEEDS=200 cargo test --workspace --all-features --test sim in_seeds_that_nobody_has_run
	cargo test --workspace --all-features --test promises -- --include-ignored single_redisson strict_quorum_of_3_redlock

# What depends on the server or on how locks are taken, and the promises on one server, on a master and
# on a quorum: a part of the testbeds, in both layouts. The same features as all tests, so that nothing
# is built anew.
PART = --test admission --test replicated --test scenarios --test wire
BEDS = single_redisson proven_master strict_quorum_of_3_redlock

# A test compares: what it prints is what a change does to users.
api: .cargo-is-there
	QUORUMLOCK_UPDATE_API=1 cargo test --workspace --all-features --test public_api

# Of what tests see on real servers.
tables: .cargo-is-there
	QUORUMLOCK_UPDATE_TABLES=1 cargo test --workspace --all-features --test house --test permissions --test services -- prints

# All: QUORUMLOCK_SERVER_BIN=$$(scripts/get-redis) cargo test -p quorumlock-tests --all-features
test-redis: .cargo-is-there
	server=$$(scripts/get-redis) && export QUORUMLOCK_SERVER_BIN=$$server && \
		cargo test --workspace --all-features $(PART) --test cluster --test permissions --test sentinel \
			--test services && \
		cargo test --workspace --all-features --test promises -- --include-ignored $(BEDS)

test-scripts: .cargo-is-there
	scripts/get-server
	export QUORUMLOCK_TEST_SCRIPTS_ONLY=1 && \
		cargo test --workspace --all-features $(PART) && \
		cargo test --workspace --all-features --test promises -- --include-ignored $(BEDS)

# Without Java, Node or Python's venv (3) there is nothing to test against.
test-interop: .cargo-is-there
	scripts/get-server
	@interop=$$(scripts/get-interop); code=$$?; \
	if [ $$code = 3 ] && [ "$$QUORUMLOCK_REQUIRE_INTEROP" != 1 ]; then \
		echo "make test-interop: SKIPPED, see above"; \
	elif [ $$code != 0 ]; then \
		exit $$code; \
	else \
		export QUORUMLOCK_INTEROP=$$interop && \
		cargo test --workspace --all-features --test interop && \
		cargo test --workspace --all-features --test lab -- workers_of_other_libraries; \
	fi

# Where pip cannot fetch there is nothing to test with.
test-python: .cargo-is-there
	scripts/get-server
	@# Where `make test` has built the commands, nothing is built anew with other features.
	[ -x target/debug/quorumlock ] || cargo build --package quorumlock-cli
	[ -x target/debug/quorumlock-lab ] || cargo build --package quorumlock-lab
	scripts/test-python $(ARGS)

test-report: .cargo-is-there
	browser=$$(scripts/get-browser) && \
		QUORUMLOCK_REQUIRE_BROWSER=1 QUORUMLOCK_BROWSER_BIN=$$browser \
		cargo test --package quorumlock-lab --test lab report_browser

sim: .cargo-is-there
	cargo run --release --package quorumlock-sim --bin sim

histories: .cargo-is-there
	HISTORIES=$${HISTORIES:-1000} cargo test --workspace --all-features --test linearizable

model: .cargo-is-there
	cargo run --release --package quorumlock-model --bin model

# On Debian's Redis and on Valkey; by default into docs/, a quick look into target/bench. Without the
# clients of other languages P12 is skipped, and P13 has no peers; without etcd it has no rows.
bench: .cargo-is-there
	scripts/get-server valkey
	-scripts/get-etcd
	redis=$$(scripts/get-redis) && interop=$$(scripts/get-interop || true) && \
		QUORUMLOCK_INTEROP=$$interop cargo run --release --package quorumlock-benches --bin side-by-side -- \
		--server $$redis --server $${XDG_CACHE_HOME:-$$HOME/.cache}/quorumlock/valkey-server \
		--out $(if $(QUICK),target/bench,docs) $(ARGS)

bench-python: .cargo-is-there
	scripts/get-server
	cargo build --release --locked --manifest-path crates/python/Cargo.toml --example pairs
	venv=$$(scripts/get-python --release) && $$venv/bin/python crates/python/benches/pairs.py \
		--rust crates/python/target/release/examples/pairs --page docs/PYTHON.md $(ARGS)

check: .cargo-is-there
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --all-features -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --all-features
	scripts/check-licences

fix: .cargo-is-there
	cargo fmt --all
	cargo clippy --workspace --all-targets --all-features --fix --allow-dirty --allow-staged

.PHONY: .cargo-is-there
.cargo-is-there:
	@command -v cargo >/dev/null || { echo "Rust is missing: see https://rustup.rs" >&2; exit 1; }
	@echo "cargo fetches crates from the crate registry if they are not here yet"
