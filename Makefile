# Front door only: the build is Meson's (meson.build). Everything lands in build/.
BUILD ?= build
MESON_ARGS ?=

.PHONY: all setup configure check demo clean install asan ubsan tsan format tidy

all: configure
	@ninja -C $(BUILD)

setup:
	@sh scripts/setup.sh

configure: setup
	@BUILD=$(BUILD) MESON_ARGS="$(MESON_ARGS)" sh scripts/configure.sh

# Prints "N passed, N failed" as its last line, also when the build fails.
check:
	@BUILD=$(BUILD) MESON_ARGS="$(MESON_ARGS)" sh scripts/check.sh

demo: all
	@BUILD=$(BUILD) sh test/demo.sh

install: all
	DESTDIR="$(DESTDIR)" meson install -C $(BUILD) --no-rebuild

asan:
	@BUILD=build-asan MESON_ARGS="-Db_sanitize=address -Db_lundef=false -Dparanoid=true" \
		SUITES="unit model" sh scripts/check.sh

ubsan:
	@BUILD=build-ubsan MESON_ARGS="-Db_sanitize=undefined -Db_lundef=false -Dparanoid=true" \
		SUITES="unit model" sh scripts/check.sh

tsan:
	@BUILD=build-tsan MESON_ARGS="-Db_sanitize=thread -Db_lundef=false" \
		SUITES="unit model" sh scripts/check.sh

format:
	@sh test/tidy/check_format.sh . --fix

tidy: configure
	@ninja -C $(BUILD) clang-tidy

clean:
	rm -rf build build-asan build-ubsan build-tsan
