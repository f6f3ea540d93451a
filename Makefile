.PHONY: help demo test test-redis test-scripts test-report check fix sim model bench

help:
	@echo "make demo    both modes on servers of this machine: a table, and a report in target/demo (ARGS=...)"
	@echo "make test    the whole test suite, with real servers and, if there is an engine, containers"
	@echo "make test-redis  the tests on real servers, on Debian's Redis 7 instead of Valkey"
	@echo "make test-scripts the tests on real servers, with locks taken by script alone"
	@echo "make test-report the lab's report in a real browser, which is fetched if need be (100 MB)"
	@echo "make sim     20,000 seeds of the simulation (SEEDS=n, and FRESH=n drawn anew), or one with its trace (SEED=n)"
	@echo "make model   the full search of the models"
	@echo "make bench   beside other lock crates, into docs/BENCHMARKS.md: 40 minutes (ONLY=P1,P5; QUICK=1)"
	@echo "make check   format, lints, documentation, licences"
	@echo "make fix     format, and apply what the lints suggest"

demo: .cargo-is-there
	scripts/get-server
	# A report is of one comparison: that of the last time goes.
	@rm -rf target/demo
	cargo run --release --package quorumlock-cli -- compare --report target/demo $(ARGS)

# Without the optional ones only the tests of TLS, of clocks that are set and of the report's page in
# a browser are skipped.
test: .cargo-is-there
	scripts/get-server
	-scripts/get-redis
	-scripts/get-faketime
	-scripts/get-browser
	scripts/build-test-image
	cargo test --workspace --all-features

test-redis: .cargo-is-there
	server=$$(scripts/get-redis) && \
		QUORUMLOCK_SERVER_BIN=$$server cargo test --package quorumlock-tests --all-features

# The same features as all tests, so that nothing is built anew.
test-scripts: .cargo-is-there
	scripts/get-server
	QUORUMLOCK_TEST_SCRIPTS_ONLY=1 cargo test --workspace --all-features \
		--test promises --test wire --test admission --test scenarios --test replicated

test-report: .cargo-is-there
	browser=$$(scripts/get-browser) && \
		QUORUMLOCK_REQUIRE_BROWSER=1 QUORUMLOCK_BROWSER_BIN=$$browser \
		cargo test --package quorumlock-lab --test report_browser

sim: .cargo-is-there
	cargo run --release --package quorumlock-lab --features sim --bin sim

model: .cargo-is-there
	cargo run --release --package quorumlock-model --bin model

# On Debian's Redis and on Valkey; by default into docs/, a quick look into target/bench.
bench: .cargo-is-there
	scripts/get-server valkey
	redis=$$(scripts/get-redis) && \
		cargo run --release --package quorumlock-benches --bin side-by-side -- \
		--server $$redis --server $${XDG_CACHE_HOME:-$$HOME/.cache}/quorumlock/valkey-server \
		--out $(if $(QUICK),target/bench,docs) $(ARGS)

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
