# Front door only: the build is Meson's (meson.build). Everything lands in build/.
BUILD ?= build
MESON_ARGS ?=
DIR ?= /tmp
DESTDIR ?=
PREFIX ?=
HELPER_DIR ?=
KILLS ?= 50
MUTATIONS ?= 10000
SECONDS ?= 3
SCALE ?= 10
TXNS ?= 1000000

.PHONY: all setup configure check test full exercise history bench bench-hot demo clean install uninstall asan \
	ubsan tsan \
	format tidy

all: configure
	@ninja -C $(BUILD)

setup:
	@sh scripts/setup.sh

configure: setup
	@BUILD=$(BUILD) MESON_ARGS="$(MESON_ARGS)" sh scripts/configure.sh

# Everything, sanitizers and planted faults included. Prints "N passed, N failed" as its last line.
check:
	@BUILD=$(BUILD) sh scripts/check_all.sh

# The tests of the plain build only.
test:
	@BUILD=$(BUILD) MESON_ARGS="$(MESON_ARGS)" sh scripts/check.sh

# At full size, on DIR's disk (a few GiB): 1 GiB filled ten times, 2 GiB and 300,000 files in one
# transaction, a million files in one directory, copies killed KILLS times, damaged images.
full: all
	@BUILD=$(BUILD) DIR="$(DIR)" KILLS="$(KILLS)" MUTATIONS="$(MUTATIONS)" sh scripts/full.sh

# The exercisers of a mount, SCALE times as long as in the test suite; ONLY some of: files names
# isolation waiting programs; SEED. As root, on DIR's disk.
exercise: all
	@BUILD=$(BUILD) DIR="$(DIR)" SCALE="$(SCALE)" SEED="$(SEED)" $(if $(ONLY),ONLY="$(ONLY)") \
		sh scripts/exercise.sh

# Random transactions, judged: TXNS of them; SEED; LEVEL: snapshot, serializable or locking. On DIR's disk.
history: all
	@HISTORY_TXNS=$(TXNS) HISTORY_SEED="$(SEED)" HISTORY_LEVEL="$(LEVEL)" HISTORY_DIR="$(DIR)" \
		$(BUILD)/test/history/test_history

# Figures beside SQLite and the raw device, on DIR's disk.
bench: all
	@$(BUILD)/bench/bench_first "$(DIR)" $(SECONDS)
	@$(BUILD)/bench/bench_commit "$(DIR)/bench_commit.stet"
	@$(BUILD)/bench/bench_bytes "$(DIR)/bench_bytes.stet"

# Many threads on few records.
bench-hot: all
	@$(BUILD)/bench/bench_hot "$(DIR)" $(SECONDS)

demo:
	@BUILD=$(BUILD) sh scripts/demo.sh

# Below DESTDIR, with PREFIX (/usr/local); mount(8) finds its helpers only with HELPER_DIR=/sbin.
install: all
	@BUILD=$(BUILD) DESTDIR="$(DESTDIR)" PREFIX="$(PREFIX)" HELPER_DIR="$(HELPER_DIR)" \
		sh scripts/install.sh install

# Removes exactly what install with the same settings puts there.
uninstall: all
	@BUILD=$(BUILD) DESTDIR="$(DESTDIR)" PREFIX="$(PREFIX)" HELPER_DIR="$(HELPER_DIR)" \
		sh scripts/install.sh uninstall

asan:
	@BUILD=build-asan MESON_ARGS="-Db_sanitize=address -Db_lundef=false -Dparanoid=true" \
		SUITES="unit model history" sh scripts/check.sh

ubsan:
	@BUILD=build-ubsan MESON_ARGS="-Db_sanitize=undefined -Db_lundef=false -Dparanoid=true" \
		SUITES="unit model history" sh scripts/check.sh

tsan:
	@BUILD=build-tsan MESON_ARGS="-Db_sanitize=thread -Db_lundef=false" \
		SUITES="unit model history" sh scripts/check.sh

format:
	@sh test/tidy/check_format.sh . --fix

tidy: configure
	@ninja -C $(BUILD) clang-tidy

clean:
	rm -rf build build-asan build-ubsan build-tsan build-mutants build-demo
