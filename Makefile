# SPDX-License-Identifier: GPL-2.0-only
# The commands of the project; people and CI run the same ones.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.ONESHELL:
.NOTPARALLEL:

TOOLCHAIN := scripts/toolchain
CARGO := $(TOOLCHAIN) cargo
LOCKED ?= --locked
TARGET := $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),target)
LAB := $(TARGET)/release/appease-lab
OUT := $(TARGET)/demo

# Kernels of the tests: the newest that loads sched_ext programs, and the oldest series that is supported.
KERNELS ?= default,6.18
# One without sched_ext, for the nice backend: Debian 13's own.
NICE_KERNEL := 6.12

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

.PHONY: deps
deps: ## install the Debian packages that are missing (root), or say which (others); DEPS=off skips it
ifneq ($(DEPS),off)
	@scripts/deps
endif

.PHONY: build
build: deps ## release build of all programs
	$(CARGO) build $(LOCKED) --release --workspace

.PHONY: lab
lab: build ## release build, and the images of all scenarios
	$(LAB) build --kernel $(KERNELS),$(NICE_KERNEL)

.PHONY: demo
demo: build ## typing, a command and a video at 16 hogs, under eevdf and under appease
	$(LAB) demo --out $(OUT)

.PHONY: check
check: ## format and lints
	$(CARGO) fmt --all --check
	$(CARGO) clippy $(LOCKED) --workspace --all-targets -- -D warnings

.PHONY: test
test: deps test-host build test-vm ## every test, on the host and in virtual machines

.PHONY: test-host
test-host:
	$(CARGO) test $(LOCKED) --release --workspace

# Each target alone: make fuzz TARGETS="config proc-net" RUNS=100000
.PHONY: fuzz
fuzz: ## look for inputs that break parsers, 10,000,000 for each; hours, goes on where it was interrupted; TARGETS="config …", RUNS=N
	RUNS=$(RUNS) KEEP=$(KEEP) scripts/fuzz $(TARGETS)

# The checks build the images of the scenarios that they run; packages of others cost nothing here.
# Shows cargo's lines as they come; the last line is the sum, also when a test failed.
.PHONY: test-vm
test-vm:
	@log=$(TARGET)/vm-tests.log
	status=0
	APPEASE_VM_TESTS=1 APPEASE_VM_KERNELS="$(KERNELS)" \
	    $(CARGO) test $(LOCKED) --release --workspace --test vm 2>&1 | tee "$$log" || status=$$?
	awk '/^test result:/ { passed += $$4; failed += $$6 } END { print passed + 0 " passed, " failed + 0 " failed" }' "$$log"
	exit $$status

.PHONY: acceptance
acceptance: lab ## every promise in full, on every kernel: hours, on a quiet host; goes on where it was interrupted
	APPEASE_VM_TESTS=full APPEASE_VM_KERNELS="$(KERNELS)" $(CARGO) test $(LOCKED) --release --workspace --test vm

# The long runs; a part of their names, such as ONLY=soak-kills or ONLY=hotplug_on_4_cpus, takes some of them.
LONG := faults faults-nice soak-kills soak-kills-nice soak-hotplug soak-reloads

.PHONY: soak
soak: build ## nothing is left behind over long runs: hours; goes on where it was interrupted; ONLY=soak-kills for a part
	$(LAB) build --kernel $(KERNELS),$(NICE_KERNEL) $(LONG)
	APPEASE_VM_TESTS=soak APPEASE_VM_KERNELS="$(KERNELS)" \
	    $(CARGO) test $(LOCKED) --release --package appease-lab --test vm -- $(ONLY)

.PHONY: bench
bench: build ## the league: every scenario under every scheduler; hours, goes on where it was interrupted; QUICK=1: 15 minutes
	$(TOOLCHAIN) $(LAB) peers
	$(LAB) bench $(if $(QUICK),--quick,--readme README.md)

.PHONY: clean
clean: ## remove everything built, the laboratory's images included
	rm -rf $(TARGET)
