# The speech container: speech-server with ONNX Runtime, eSpeak NG, a program on its library, and the encoders of MP3 and Opus.
# Weights are not part of it: the platform, or a volume, puts them into /opt/ml/model (doc/model.md).
#
#   docker build --build-arg GO_DIGEST=sha256:… --build-arg DEBIAN_DIGEST=sha256:… -t speech:cpu .
#   docker build --build-arg GO_DIGEST=sha256:… --build-arg CUDA_DIGEST=sha256:… --build-arg VARIANT=cuda \
#     --build-context onnxruntime=DIR -t speech:cuda .
#
# DIR has libonnxruntime.so.1, libonnxruntime_providers_shared.so and libonnxruntime_providers_cuda.so of one release of ONNX
# Runtime for CUDA 12. `make setup` puts the library for processors into .onnxruntime.
#
# Digests have no defaults: what goes into an image is said by whoever builds it.
ARG GO_DIGEST
ARG DEBIAN_DIGEST
ARG CUDA_DIGEST
ARG VARIANT=cpu

FROM golang:1.26-bookworm@${GO_DIGEST} AS build
RUN apt-get update && \
    apt-get install -y --no-install-recommends libespeak-ng-dev && \
    rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY cmd cmd
COPY internal internal
ARG VERSION=devel
RUN CGO_ENABLED=1 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/speech-server ./cmd/speech-server
RUN cc -O2 -o /out/espeak-phonemes internal/engine/phonemes/speller/espeak-phonemes.c -lespeak-ng

FROM scratch AS onnxruntime
COPY .onnxruntime/ /

FROM debian:bookworm-slim@${DEBIAN_DIGEST} AS cpu
ENV SPEECH_DEVICE=cpu

FROM nvidia/cuda:12.8.1-cudnn-runtime-ubuntu24.04@${CUDA_DIGEST} AS cuda
# Without an accelerator it does not start: a slow instance that looks healthy is worse than none.
ENV SPEECH_DEVICE=cuda

FROM ${VARIANT}
RUN apt-get update && \
    apt-get install -y --no-install-recommends espeak-ng libespeak-ng1 lame opus-tools && \
    rm -rf /var/lib/apt/lists/*
COPY --from=onnxruntime / /opt/speech/
COPY --from=build /out/speech-server /out/espeak-phonemes /opt/speech/
# The platform opens WebSockets only to images that say so, and may choose the port of those that say that.
LABEL com.amazonaws.sagemaker.capabilities.bidirectional-streaming=true \
      com.amazonaws.sagemaker.capabilities.accept-bind-to-port=true
ENV SPEECH_ENGINE=kokoro \
    SPEECH_MODEL_DIR=/opt/ml/model
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/opt/speech/speech-server"]
CMD ["serve"]
