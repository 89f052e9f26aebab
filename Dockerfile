# docker build -t parsimon --build-arg COMMIT="$(git rev-parse HEAD)" . && docker run --rm -v "$PWD/lake:/lake" parsimon run small --lake /lake
FROM golang:1.26.8-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG COMMIT=unknown
RUN CGO_ENABLED=1 go build -trimpath -buildvcs=false -ldflags "-s -w -X main.builtFrom=$COMMIT" -o /out/parsimon ./pipeline/cmd/parsimon
RUN cd pipeline/cmd/parsimon-publish && CGO_ENABLED=1 go build -trimpath -buildvcs=false -ldflags "-s -w" -o /out/parsimon-publish .

FROM debian:12.12-slim
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates libstdc++6 tzdata \
 && rm -rf /var/lib/apt/lists/* && useradd --uid 65532 --create-home parsimon
COPY --from=build /out/parsimon /out/parsimon-publish /usr/local/bin/
COPY --from=build /src/pipeline/nightly/nightly.sh /usr/local/bin/nightly.sh
USER 65532
WORKDIR /home/parsimon
ENTRYPOINT ["parsimon"]
