# SPDX-License-Identifier: MIT OR Apache-2.0
# Two commands do all the set-up on a Debian machine with Rust: `make demo` and `make test`.

CARGO ?= cargo
# Twice as many as cores: many tests wait most of the time.
TEST_THREADS ?= $(shell echo $$((2 * $$(nproc))))
# A whole build of tests takes 5 GB so, and 30 GB with debug information and what incremental builds keep. Who changes code uses cargo itself.
LEAN = CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0

.PHONY: demo build test lint check needs golden bench peers docs deb image audit install-test reproducible msrv

demo: ## build quickly, and run a router on in-process wires
	@echo "Building a copy that is compiled fast (some 2 minutes on two cores); 'make build' makes the one that runs fast."
	$(CARGO) build --profile demo --package junctor
	target/demo/junctor demo

build: ## the program with all optimisations: target/release/junctor (some 7 minutes on two cores)
	$(CARGO) build --release --package junctor

docs: ## the book, as HTML in target/book
	@mdbook --version >/dev/null 2>&1 || { echo "Installing mdbook"; $(CARGO) install mdbook --locked --quiet; }
	$(CARGO) build --profile demo --package junctor
	$(CARGO) xtask book target/demo/junctor

test: needs ## install what tests need, and run all tests
	$(LEAN) $(CARGO) nextest run --workspace --no-fail-fast --test-threads $(TEST_THREADS)
	$(LEAN) $(CARGO) test --workspace --doc --quiet
	$(LEAN) $(CARGO) xtask tidy
	$(LEAN) $(CARGO) xtask audit
	$(LEAN) $(CARGO) xtask models

deb: ## the Debian package, in target/debian; PROFILE=demo for one that is built fast
	scripts/make-deb $(or $(PROFILE),release)

image: ## a container image as an OCI layout, target/image; needs no daemon
	scripts/make-image $(or $(PROFILE),release)

install-test: ## the package on a clean Debian in a guest: services, upgrades, reboots, power cuts, removal; needs root, takes minutes
	scripts/install-test --profile $(or $(PROFILE),demo)

audit: ## licences, bans and known faults of crates by cargo-deny, whose own build takes minutes
	@cargo deny --version >/dev/null 2>&1 || { echo "Installing cargo-deny"; $(CARGO) install cargo-deny --locked --quiet; }
	scripts/audit

reproducible: ## build the program twice, in two directories, and compare
	scripts/check-reproducible $(or $(PROFILE),release)

msrv: ## compile the program with the oldest Rust that is promised, if it is here
	scripts/check-msrv

lint:
	$(CARGO) fmt --all --check
	$(LEAN) $(CARGO) clippy --workspace --all-targets --quiet -- -D warnings

check: lint test ## what CI runs

golden: ## the golden tests alone; GOLDEN=part picks some
	$(CARGO) test --package junctor --test golden

bench: build
	target/release/junctor bench engine conf/ip-router.click

peers: ## our tables and IP path beside DPDK's; says what to install
	benches/peers/run.sh

needs:
	@scripts/install-test-needs
