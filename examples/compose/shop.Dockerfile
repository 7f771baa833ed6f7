# examples/shop in an image: one static binary, a directory for its database.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -buildvcs=false -trimpath -o /out/shop ./examples/shop && mkdir /out/data

FROM scratch
COPY --from=build /out/shop /shop
COPY --from=build --chown=65532:65532 /out/data /data
USER 65532:65532
ENTRYPOINT ["/shop"]
