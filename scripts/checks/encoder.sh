#!/usr/bin/env bash
# Embeddings of the real encoder, served, against the reference implementation's.
#
# Serves all-MiniLM-L6-v2, embeds 200 sentences in one call and some of them alone, and compares with the
# committed vectors of transformers (tests/golden/make_embeddings.py).
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh

build_preset release penstock
fetch_encoder
penstock=build/release/cli/penstock
address=127.0.0.1:$(free_port)
folder=$(mktemp -d)
"$penstock" serve --model "$ENCODER" --listen "$address" --metrics off --log-level warn 2>"$folder/log" &
server=$!
trap 'kill $server 2>/dev/null; wait $server 2>/dev/null || true; rm -rf "$folder"' EXIT
for _ in $(seq 300); do
  "$penstock" health --address "$address" >/dev/null 2>&1 && break
  kill -0 $server 2>/dev/null || { cat "$folder/log" >&2; exit 1; }
  sleep 0.1
done

sentences=tests/data/embeddings/sentences.txt
"$penstock" embed --address "$address" --truncate <"$sentences" >"$folder/together"
for ((line = 1; line <= 200; line += 20)); do
  sed -n "${line}p" "$sentences" | "$penstock" embed --address "$address" --truncate
done >"$folder/alone"

python3 - "$folder" tests/data/embeddings/all-MiniLM-L6-v2.f16 <<'PYTHON'
import array, json, math, struct, sys
folder, reference = sys.argv[1:]
together, alone = ([json.loads(line)["values"] for line in open(f"{folder}/{name}")] for name in ("together", "alone"))
raw = open(reference, "rb").read()
width = len(together[0])
values = struct.unpack(f"<{len(raw) // 2}e", raw)
assert len(values) == width * len(together), (len(values), width, len(together))
cosines = []
for i, vector in enumerate(together):
    wanted = values[i * width:(i + 1) * width]
    lengths = math.sqrt(sum(x * x for x in vector) * sum(x * x for x in wanted))
    cosines.append(sum(x * y for x, y in zip(vector, wanted)) / lengths)
same = sum(vector == together[20 * i] for i, vector in enumerate(alone))
print(f"encoder: {len(cosines)} sentences, cosine: mean {sum(cosines) / len(cosines):.7f}, worst {min(cosines):.7f} "
      f"(sentence {cosines.index(min(cosines)) + 1}); {same} of {len(alone)} alone equal to the bit")
ok = min(cosines) >= 0.9999 and same == len(alone)
print(f"encoder: worst cosine {min(cosines):.7f} (goal 0.9999): {'ok' if ok else 'short'}")
sys.exit(not ok)
PYTHON
