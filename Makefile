# SPDX-License-Identifier: MIT OR Apache-2.0
# Two commands do all the set-up on a Debian machine with Rust: `make demo` and `make test`.

CARGO ?= cargo

.PHONY: demo build test lint check needs golden bench peers

demo: build ## build, and run a router on in-process wires
	target/release/junctor demo

build:
	$(CARGO) build --release --package junctor

test: needs ## install what tests need, and run all tests
	$(CARGO) nextest run --workspace --no-fail-fast
	$(CARGO) test --workspace --doc --quiet
	$(CARGO) xtask tidy
	$(CARGO) xtask models

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings

check: lint test ## what CI runs

golden: ## the golden tests alone; GOLDEN=part picks some
	$(CARGO) test --package junctor --test golden

bench: build
	target/release/junctor bench engine conf/ip-router.click

peers: ## our tables and IP path beside DPDK's; says what to install
	benches/peers/run.sh

needs:
	@scripts/install-test-needs
