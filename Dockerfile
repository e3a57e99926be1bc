# Penstock for CPUs. Build: docker build -t penstock .
# Run:   docker run -p 50051:50051 -p 9464:9464 -v /path/to/models:/models:ro penstock \
#          serve --model /models/model.gguf --listen 0.0.0.0:50051 --metrics 0.0.0.0:9464
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS build
WORKDIR /src
COPY scripts/setup.sh scripts/
RUN scripts/setup.sh build
COPY . .
RUN cmake --preset release -DPENSTOCK_CUDA=OFF && ninja -C build/release penstock \
    && strip -o /usr/local/bin/penstock build/release/cli/penstock

FROM ${BASE}
RUN apt-get update && apt-get install -y --no-install-recommends \
      libgloo0 libgrpc++1.51 libprotobuf32 libabsl20220623 libprometheus-cpp-core1.0 \
      libprometheus-cpp-pull1.0 libpcre2-8-0 libutf8proc2 libzip4 libyaml-cpp0.7 libspdlog1.10 libcurl4 \
    && rm -rf /var/lib/apt/lists/* && useradd --system --uid 10001 penstock
COPY --from=build /usr/local/bin/penstock /usr/local/bin/penstock
COPY deploy/launch.sh /usr/local/share/penstock/
USER penstock
EXPOSE 50051 9464
HEALTHCHECK --interval=10s --timeout=3s --start-period=120s \
  CMD ["penstock", "health", "--address", "127.0.0.1:50051"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["penstock"]
CMD ["serve", "--model", "/models", "--listen", "0.0.0.0:50051", "--metrics", "0.0.0.0:9464"]
