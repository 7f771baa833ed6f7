# The gate in an image of its own: one static binary and the CA roots, nothing to log in to.
#
#   docker build --build-arg VERSION=$(git describe --tags --always) -t queuegate .
#   docker run -p 8080:8080 -v ./queuegate.yaml:/etc/queuegate/queuegate.yaml:ro queuegate

# The compiler runs on the builder's own platform and cross-compiles: no emulation.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS=linux
ARG TARGETARCH
ARG VERSION=dev
# Where the binary is put. `make image` sets it when it runs these steps without an engine.
ARG OUT=/out
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 GOOS="$TARGETOS" GOARCH="$TARGETARCH" \
    go build -buildvcs=false -trimpath -ldflags "-s -w -X main.version=$VERSION" -o "$OUT/queuegate" ./cmd/queuegate

FROM scratch
ARG VERSION=dev
LABEL org.opencontainers.image.title="queuegate" \
      org.opencontainers.image.description="A virtual waiting room in front of a web shop" \
      org.opencontainers.image.source="https://github.com/queuegate/queuegate" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/queuegate /queuegate
COPY LICENSE /LICENSE
# A number and not a name, so that Kubernetes can tell that it is not root; there is no /etc/passwd either.
USER 65532:65532
# 8080 visitors, 9090 operators (probes, metrics, API).
EXPOSE 8080 9090
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s --retries=3 CMD ["/queuegate", "healthcheck", "-c", "/etc/queuegate/queuegate.yaml"]
ENTRYPOINT ["/queuegate"]
CMD ["serve", "-c", "/etc/queuegate/queuegate.yaml"]
