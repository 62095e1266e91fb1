# make build   binaries in bin/
# make demo    an endpoint measured, certified and planned on this machine, from nothing, in a few minutes
# make test    every check; sets itself up; ends with "N passed, N failed"
# make bench   the figures of the README, one by one (about half an hour; wants a quiet machine)

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS  = -s -w -X main.version=$(VERSION)
SUDO     = $(shell test "$$(id -u)" = 0 || echo sudo)
BENCHES  = $(notdir $(patsubst %/,%,$(wildcard bench/*/)))

.PHONY: build demo test bench setup clean

build:
	@mkdir -p bin
	go build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

demo: build
	@./bin/tts-bench demo

test: setup
	@go run ./test

# espeak-ng speaks the texts of the real-input test.
setup:
	@command -v espeak-ng >/dev/null || { $(SUDO) apt-get update -q && $(SUDO) apt-get install -y -q --no-install-recommends espeak-ng; }
	@go mod download

bench:
	@for b in $(BENCHES); do echo "== bench/$$b"; go run ./bench/$$b || exit 1; done

clean:
	rm -rf bin
