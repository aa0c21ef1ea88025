# The Collector, compiled before: goreleaser gives it as $TARGETPLATFORM/otelcol-llm. deploy/collector/Dockerfile compiles
# one from a checkout; what it says of users, folders and ports holds here, too.
# Not built by .ci/run, which has no Docker.
FROM --platform=$BUILDPLATFORM golang:1.26.8-bookworm AS files
RUN mkdir /empty

FROM scratch
ARG TARGETPLATFORM
COPY --from=files /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY LICENSE build/release/notices/otelcol-llm.txt /licenses/
COPY build/release/config/ /etc/otelcol-llm/
COPY --from=files --chown=10001:10001 /empty /var/lib/otelcol-llm
COPY $TARGETPLATFORM/otelcol-llm /otelcol-llm
USER 10001:10001
VOLUME /var/lib/otelcol-llm
EXPOSE 4317 4318 8889 8888 13133
ENTRYPOINT ["/otelcol-llm"]
CMD ["--config=/etc/otelcol-llm/config.yaml", "--config=/etc/otelcol-llm/config-metrics.yaml"]
