# make build   binaries in bin/
# make demo    an endpoint measured, certified and planned on this machine, from nothing, in a few minutes
# make test    every check; sets itself up; ends with "N passed, N failed"
# make bench   the figures of the README, one by one (about an hour; wants a quiet machine)

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS  = -s -w -X main.version=$(VERSION)
SUDO     = $(shell test "$$(id -u)" = 0 || echo sudo)
BENCHES  = $(patsubst bench/%/main.go,%,$(wildcard bench/*/main.go))

SPELLER  = internal/engine/phonemes/speller/espeak-phonemes.c

.PHONY: build programs speller infra demo test bench setup clean

build: programs speller
	@if command -v node >/dev/null; then $(MAKE) --no-print-directory infra; else echo "bin/speech-infra is left out: it needs Node (make infra)"; fi

programs:
	@mkdir -p bin
	go build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

# speech-server has it say how words sound, several times as fast as the program of eSpeak NG.
speller:
	@mkdir -p bin
	@if echo '#include <espeak-ng/speak_lib.h>' | $(CC) -E -o /dev/null - 2>/dev/null; then $(CC) -O2 -Wall -Wextra -o bin/espeak-phonemes $(SPELLER) -lespeak-ng; \
	else echo "bin/espeak-phonemes is left out: it needs a C compiler and libespeak-ng-dev (make setup); espeak-ng takes its place"; fi

infra:
	@mkdir -p bin
	go build -C infra -ldflags '$(LDFLAGS)' -o ../bin/ ./cmd/...

demo: programs
	@./bin/tts-bench demo

test: setup
	@go run ./test

# espeak-ng speaks the texts of the real-input test; its library says how words sound; lame and opusenc make MP3 and Opus. ONNX
# Runtime runs the stand-in for Kokoro's graph, with some of its real voices. cfn-guard checks the stacks' templates, by AWS's
# rules too.
TOOLS = espeak-ng lame opusenc npm chromium
ORT   = onnxruntime-node@1.24.3 aa1bb5fa261ea68de05dd53efbba210cd7adf2d2850f4c3a201054c74cc78040
VOICE = kokoro-js@1.2.1 1f0d0383ef0349af0bd9440d81dc12abbea3a5392eb645283eda876f537f5860
GUARD = @cdklabs/cdk-validator-cfnguard@0.0.62 660c14562d4c79d524d0623d80d494e41797acae9da23ecb10915d7f66ada80c
RULES = $(foreach n,1 2 3 4 5 6 8 9 10 11 12,s3/ct-s3-pr-$n) $(foreach n,1 2 3 4 5 6,codebuild/ct-codebuild-pr-$n) \
	$(foreach n,1 2 3 4,cloudwatch/ct-cloudwatch-pr-$n) $(foreach n,1 2 3,ecr/ct-ecr-pr-$n) $(foreach n,2 3 4 5 6,lambda/ct-lambda-pr-$n)
setup:
	@for t in $(TOOLS); do command -v $$t >/dev/null || lacks="$$lacks $$t"; done; \
		test -e /usr/include/espeak-ng/speak_lib.h || lacks="$$lacks libespeak-ng-dev"; test -z "$$lacks" || { $(SUDO) apt-get update -q && \
		$(SUDO) apt-get install -y -q --no-install-recommends $$(echo $$lacks | sed s/opusenc/opus-tools/); }
	@test/fetch/package.sh $(ORT) .onnxruntime package/bin/napi-v6/linux/$$(uname -m | sed 's/x86_64/x64/; s/aarch64/arm64/')/libonnxruntime.so.1
	@test/fetch/package.sh $(VOICE) .voices $(patsubst %,package/voices/%.bin,af_heart af_bella af_sky bf_emma ff_siwis)
	@test/fetch/package.sh $(GUARD) .cfnguard package/bin/ubuntu/$$(uname -m | sed s/arm64/aarch64/)/cfn-guard $(RULES:%=package/rules/control-tower/cfn-guard/%.guard)
	@chmod +x .cfnguard/cfn-guard
	@$(MAKE) --no-print-directory speller
	@go mod download
	@cd test/kube && go mod download

bench:
	@for b in $(BENCHES); do echo "== bench/$$b"; go run ./bench/$$b || exit 1; done

clean:
	rm -rf bin
