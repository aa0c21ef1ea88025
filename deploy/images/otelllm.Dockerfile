# The program otelllm, compiled before: goreleaser gives it as $TARGETPLATFORM/otelllm. A proxy in a container:
#   docker run -p 127.0.0.1:8787:8787 ghcr.io/otelllm/otelllm proxy --listen 0.0.0.0:8787
# Not built by .ci/run, which has no Docker.
FROM --platform=$BUILDPLATFORM golang:1.26.8-bookworm AS files

FROM scratch
ARG TARGETPLATFORM
# To know a provider and a backend by their certificates.
COPY --from=files /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY LICENSE build/release/notices/otelllm.txt /licenses/
COPY $TARGETPLATFORM/otelllm /otelllm
# By number, so that Kubernetes' runAsNonRoot can tell.
USER 10001:10001
ENTRYPOINT ["/otelllm"]
