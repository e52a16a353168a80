# infq. `make demo` and `make test` do all set-up themselves; see README.md.
# Variables: CC, BUILD (folder), SAN=1 (address and undefined-behaviour sanitizers), V=1 (show commands).

SHELL := /bin/bash
CC ?= gcc
SAN ?= 0
BUILD ?= $(if $(filter 1,$(SAN)),build/san,build)
PREFIX ?= /usr/local
VERSION := 0.1.0
Q := $(if $(filter 1,$(V)),,@)
ARCH := $(shell uname -m)
# Targets that set up first build with all processors, unless make was told how many jobs.
JOBS = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc))

# Debian's packages; setup installs the missing ones.
PACKAGES := gcc make pkg-config libcjson-dev zlib1g-dev libpcre2-dev libutf8proc-dev libyaml-dev libdnnl-dev \
	libssl-dev libcurl4-openssl-dev check

PKGS := libcjson zlib libpcre2-8 libutf8proc yaml-0.1 libcrypto libcurl
CFLAGS_BASE := -std=c11 -D_GNU_SOURCE -DINFQ_VERSION='"$(VERSION)"' -I. -O2 -g -fopenmp -ffp-contract=off -fno-math-errno \
	-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wno-format-truncation -Werror=implicit-function-declaration
LDLIBS := $(shell pkg-config --libs $(PKGS) 2>/dev/null) -ldnnl -lm -lpthread
CPPFLAGS_PKG := $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
ifeq ($(SAN),1)
CFLAGS_BASE += -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
LDFLAGS += -fsanitize=address,undefined
endif

# ISA flags go by file name: kernels/cpu/*_avx2.c and so on, built on x86-64 only.
ISA_avx2 := -mavx2 -mfma -mf16c
ISA_avx512 := $(ISA_avx2) -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512
ISA_vnni := $(ISA_avx512) -mavx512vnni

LIB_SRC := $(sort $(wildcard lib/*/*.c kernels/ref/*.c kernels/cpu/*.c))
ifneq ($(ARCH),x86_64)
LIB_SRC := $(filter-out kernels/cpu/%_avx2.c kernels/cpu/%_avx512.c kernels/cpu/%_vnni.c,$(LIB_SRC))
endif
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/obj/%.o) $(BUILD)/obj/evals/builtin.o
MANIFESTS := $(sort $(wildcard evals/*.yaml))
LIB := $(BUILD)/libinfq.a
TOOLS := infq infeval infbench
TOOL_BIN := $(TOOLS:%=$(BUILD)/%)
TOOL_SRC := $(wildcard tools/*.c)
TOOL_COMMON := $(filter-out $(TOOLS:%=$(BUILD)/obj/tools/main_%.o),$(TOOL_SRC:%.c=$(BUILD)/obj/%.o))
TEST_SRC := $(sort $(wildcard tests/test_*.c))
TEST_BIN := $(TEST_SRC:tests/%.c=$(BUILD)/tests/%)
TEST_COMMON := $(BUILD)/obj/tests/testlib.o $(BUILD)/obj/tests/tiny_model.o
FUZZ_SRC := $(sort $(wildcard tests/fuzz/fuzz_*.c))
FUZZ_BIN := $(FUZZ_SRC:tests/fuzz/%.c=$(BUILD)/fuzz/%)

.PHONY: all packages setup demo test test-full test-threads test-bin layers models results install clean cases
.DEFAULT_GOAL := all
.SECONDARY:

all: $(TOOL_BIN)

# Every object waits for this: a missing library is named once, with the way out, before the compiler stumbles over it.
packages:
	@pkg-config --exists $(PKGS) || { echo "make: libraries are missing ($(PKGS)): 'make setup' installs them" >&2; exit 1; }

setup:
	$(Q)tools/setup.sh $(PACKAGES)

$(BUILD)/obj/%.o: %.c Makefile | packages
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_BASE) $(CPPFLAGS_PKG) $(isa) $(CFLAGS) -MMD -MP -c $< -o $@

# Task manifests and suites travel inside the programs.
$(BUILD)/obj/evals/builtin.c: evals/embed.sh $(MANIFESTS)
	@mkdir -p $(@D)
	$(Q)evals/embed.sh $(MANIFESTS) > $@.tmp && mv $@.tmp $@

$(BUILD)/obj/evals/builtin.o: $(BUILD)/obj/evals/builtin.c lib/eval/manifest.h
	$(Q)$(CC) $(CFLAGS_BASE) $(CPPFLAGS_PKG) $(CFLAGS) -c $< -o $@

$(BUILD)/obj/kernels/cpu/%_avx2.o: isa = $(ISA_avx2)
$(BUILD)/obj/kernels/cpu/%_avx512.o: isa = $(ISA_avx512)
$(BUILD)/obj/kernels/cpu/%_vnni.o: isa = $(ISA_vnni)
ifeq ($(SAN),1)
# Checks in every lane of inlined kernels would compile for minutes.
$(BUILD)/obj/kernels/cpu/%.o: CFLAGS_BASE += -O1 -fno-inline -g1
else
$(BUILD)/obj/kernels/cpu/%.o: CFLAGS_BASE += -O3
endif

$(LIB): $(LIB_OBJ)
	@rm -f $@
	$(Q)ar rcs $@ $^

$(TOOL_BIN): $(BUILD)/%: $(BUILD)/obj/tools/main_%.o $(TOOL_COMMON) $(LIB)
	$(Q)$(CC) $(CFLAGS_BASE) $(LDFLAGS) $^ $(LDLIBS) -o $@

$(BUILD)/tests/%: $(BUILD)/obj/tests/%.o $(TEST_COMMON) $(LIB)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_BASE) $(LDFLAGS) $^ $(LDLIBS) $$(pkg-config --libs check) -o $@

$(BUILD)/fuzz/%: $(BUILD)/obj/tests/fuzz/%.o $(BUILD)/obj/tests/fuzz/replay.o $(LIB)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_BASE) $(LDFLAGS) $^ $(LDLIBS) -o $@

test-bin: $(TEST_BIN) $(FUZZ_BIN) $(TOOL_BIN)

# Every Check binary, the fuzz corpus, the command-line cases. The closing line counts all of them.
test: setup
	@echo "building tools and tests"
	$(Q)$(MAKE) $(JOBS) --no-print-directory test-bin BUILD=$(BUILD) SAN=$(SAN)
	$(Q)BUILD=$(BUILD) tests/run.sh

# The same tests at every lower CPU level, recipes, scores of the real model against the reference's, then the tests under sanitizers
# at the machine's own level. (The loops that fail the n-th allocation and write are part of the suites.)
test-full: setup
	$(Q)$(MAKE) $(JOBS) --no-print-directory test-bin
	$(Q)for level in scalar avx2 avx512; do echo "== CPU level $$level"; \
	  INFQ_CPU=$$level BUILD=build tests/run.sh || exit 1; done
	$(Q)echo "== recipes"; tests/recipes.sh build
	$(Q)echo "== the real model against the reference"; tests/goldens.sh build
	$(Q)$(MAKE) $(JOBS) --no-print-directory test-bin SAN=1
	$(Q)echo "== sanitizers"; BUILD=build/san tests/run.sh

# What uses threads, under ThreadSanitizer; needs clang and LLVM's OpenMP, and is skipped without.
test-threads:
	$(Q)tests/threads.sh

layers:
	$(Q)tests/layers.sh

demo: setup
	@echo "building $(BUILD)/{infq,infeval,infbench}: about a minute on two cores the first time"
	$(Q)$(MAKE) $(JOBS) --no-print-directory all
	$(Q)evals/demo.sh $(BUILD)

# Public inputs of the slower measurements, from the user's side; see tools/models.sh.
models:
	$(Q)tools/models.sh

results: all
	$(Q)tools/results.sh

cases: all
	$(Q)tests/cases.sh $(BUILD)

install: all
	install -d $(DESTDIR)$(PREFIX)/bin
	install -m 755 $(TOOL_BIN) $(DESTDIR)$(PREFIX)/bin

# Keeps build/models, which was downloaded or put there by hand.
clean:
	rm -rf $(filter-out build/models,$(wildcard build/*))

-include $(LIB_OBJ:.o=.d) $(TOOL_SRC:%.c=$(BUILD)/obj/%.d) $(TEST_SRC:%.c=$(BUILD)/obj/%.d) $(TEST_COMMON:.o=.d) \
	$(FUZZ_SRC:%.c=$(BUILD)/obj/%.d) $(BUILD)/obj/tests/fuzz/replay.d
