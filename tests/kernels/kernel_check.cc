// Runs every kernel over fixed inputs, infinities, NaN and subnormal numbers among them, and prints
// a hash of its results, "NAME HASH" line by line. All instruction sets, on all processors, must
// print the same. Needs nothing but the kernels, so that it can be built for another processor and
// run by an emulator.
//
//   kernel_check        names the instruction sets that this processor has
//   kernel_check ISA

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "shard/backend/cpu/kernel_table.h"
#include "shard/base/half.h"

namespace penstock {
namespace {

// What is rounded, flushed or compared in a way of its own: also where f16 and bf16 round to even,
// become subnormal, zero or infinite.
constexpr float kSpecial[] = {
    0.0f,        -0.0f,        __builtin_inff(),  -__builtin_inff(), 1e-42f,
    -1e-39f,     3e38f,        -3.3e38f,          __FLT_MAX__,       65504.0f,
    65519.99f,   -65520.0f,    0x1p-24f,          0x1p-25f,          0x1.8p-25f,
    -0x1.8p-24f, 0x1.ffcp-15f, 0x1.ffep-15f,      0x1.002p0f,        0x1.006p0f,
    0x1.01p0f,   0x1.03p0f,    -0x1.010002p0f,    0x1.fffffep-127f,  87.9f,
    -87.4f,      88.1f,        __builtin_nanf("")};

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2654435761u + 1) {}
  uint32_t Next() {  // xorshift64* (Vigna, 2016)
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return static_cast<uint32_t>((state_ * 0x2545f4914f6cdd1du) >> 32);
  }
  // In (-scale, scale), exact on every processor.
  float Float(float scale) {
    return static_cast<float>(static_cast<int32_t>(Next() >> 8) - (1 << 23)) * 0x1p-23f * scale;
  }
  // One in `rarity` of them is no ordinary number; 0: none is.
  std::vector<float> Floats(int64_t count, float scale = 1, uint32_t rarity = 0) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values)
      value = rarity > 0 && Next() % rarity == 0 ? kSpecial[Next() % std::size(kSpecial)]
                                                 : Float(scale);
    return values;
  }

 private:
  uint64_t state_;
};

// FNV-1a over the results of one kernel.
class Results {
 public:
  explicit Results(const char* name) : name_(name) {}
  ~Results() { std::printf("%s %016llx\n", name_, static_cast<unsigned long long>(hash_)); }
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;

  void Add(const void* data, size_t bytes) {
    const auto* p = static_cast<const unsigned char*>(data);
    for (size_t i = 0; i < bytes; ++i) hash_ = (hash_ ^ p[i]) * 0x100000001b3u;
  }
  template <typename T>
  void Add(const std::vector<T>& values) {
    Add(values.data(), values.size() * sizeof(T));
  }
  // Of a NaN only that it is one: processors differ in its sign and payload.
  void Add(const std::vector<float>& values) {
    for (const float value : values) {
      const float same = std::isnan(value) ? __builtin_nanf("") : value;
      Add(&same, sizeof(same));
    }
  }

 private:
  const char* name_;
  uint64_t hash_ = 0xcbf29ce484222325u;
};

// Values of a storage type; small ones of f16 and bf16 are subnormal.
std::vector<float> As(const std::vector<float>& values, float) { return values; }
std::vector<F16> As(const std::vector<float>& values, F16) {
  std::vector<F16> out;
  for (const float value : values) out.push_back({FloatToHalf(value)});
  return out;
}
std::vector<BF16> As(const std::vector<float>& values, BF16) {
  std::vector<BF16> out;
  for (const float value : values) out.push_back({FloatToBf16(value)});
  return out;
}

template <typename T>
void CheckProducts(const char* name, void (*multiply)(const PanelProduct&)) {
  Results results(name);
  Random random(1);
  for (const int64_t depth : {1, 7, 11, 64, 131}) {
    const uint32_t rarity = depth == 11 ? 20 : 0;
    const auto panel =
        As(random.Floats(depth * kPanelRows, depth == 7 ? 1e-6f : 1.0f, rarity), T{});
    for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 16, 25}) {
      const std::vector<float> x = random.Floats(rows * depth, 1, rarity);
      const std::vector<float> bias = random.Floats(kPanelRows, 1, rarity);
      for (const int64_t columns : {1, 15, 16, 17, 32}) {
        std::vector<float> out(static_cast<size_t>(rows * columns));
        multiply({panel.data(), nullptr, x.data(), depth, rows, depth,
                  rows % 2 == 0 ? bias.data() : nullptr, out.data(), columns, columns});
        results.Add(out);
      }
    }
  }
}

// One chunk of attention: 8 or fewer rows that see different parts of it.
template <typename T>
void CheckAttention(const char* name, const KernelTable& k,
                    void (*write)(const float*, const float*, int64_t, int, void*, void*),
                    void (*attend)(const ChunkAttention&)) {
  Results results(name);
  Random random(2);
  for (const int64_t dim : {2, 16, 64, 72, 80}) {
    const uint32_t rarity = dim == 72 ? 500 : 0;
    const int64_t padded = (dim + 15) / 16 * 16, part = padded + 16;
    std::vector<T> keys(static_cast<size_t>(kChunkTokens * dim));
    std::vector<T> values(static_cast<size_t>(kChunkTokens * padded));
    ChunkAttention chunk = {};
    chunk.head_dim = dim;
    chunk.scale = 0.3f;
    for (int tile = 0; tile < kChunkTiles; ++tile) {
      T* key = keys.data() + tile * kTileTokens * dim;
      T* value = values.data() + tile * kTileTokens * padded;
      for (int lane = 0; lane < kTileTokens; ++lane) {
        const std::vector<float> k_row = random.Floats(dim, 4, rarity);
        const std::vector<float> v_row = random.Floats(dim, 1, rarity);
        write(k_row.data(), v_row.data(), dim, lane, key, value);
      }
      chunk.keys[tile] = chunk.next_keys[tile] = key;
      chunk.values[tile] = chunk.next_values[tile] = value;
    }
    results.Add(keys);
    results.Add(values);
    const std::vector<float> q = random.Floats(kAttendRows * dim);
    for (int32_t rows = 1; rows <= kAttendRows; ++rows) {
      std::vector<float> scores(kAttendRows * kChunkTokens);
      std::vector<float> parts(static_cast<size_t>(rows * part));
      chunk.rows = rows;
      chunk.fetches = rows % 2 == 0;
      chunk.scores = scores.data();
      for (int32_t r = 0; r < rows; ++r) {
        chunk.q[r] = q.data() + r * dim;
        chunk.begin[r] = 3 * r;
        chunk.end[r] = 100 + 2 * r;
        chunk.part[r] = parts.data() + r * part;
      }
      attend(chunk);
      for (int32_t r = 1; r < rows; ++r) k.merge_part(chunk.part[r], padded, parts.data());
      std::vector<float> out(static_cast<size_t>(dim));
      k.finish_part(parts.data(), dim, out.data());
      results.Add(parts);
      results.Add(out);
    }
  }
}

// What a cache keeps of every kind of number.
template <typename T>
void CheckStored(const char* name,
                 void (*write)(const float*, const float*, int64_t, int, void*, void*)) {
  constexpr int64_t kDim = 80;
  Results results(name);
  Random random(5);
  for (int lane = 0; lane < kTileTokens; ++lane) {
    std::vector<T> keys(kDim * kTileTokens), values(kDim * kTileTokens);
    const std::vector<float> key = random.Floats(kDim, 1e-4f, 2), value = random.Floats(kDim, 3, 2);
    write(key.data(), value.data(), kDim, lane, keys.data(), values.data());
    results.Add(keys);
    results.Add(values);
  }
}

constexpr int64_t kWidths[] = {1, 5, 16, 31, 64, 577};

template <typename Run>
void CheckRow(const char* name, Run run) {
  Results results(name);
  Random random(3);
  for (const uint32_t rarity : {0, 2, 40}) {
    for (const int64_t width : kWidths) {
      const std::vector<float> a = random.Floats(2 * width, 8, rarity);
      const std::vector<float> b = random.Floats(2 * width, 1, rarity);
      std::vector<float> inout = random.Floats(2 * width, 1, rarity);
      std::vector<float> out(static_cast<size_t>(2 * width));
      run(width, a.data(), b.data(), inout.data(), out.data());
      results.Add(inout);
      results.Add(out);
    }
  }
}

void CheckRows(const KernelTable& k) {
  using In = const float*;
  using Out = float*;
  CheckRow("rms_norm",
           [&](int64_t n, In a, In b, Out, Out out) { k.rms_norm(a, b, 1e-5f, n, out); });
  CheckRow("add_rms_norm", [&](int64_t n, In a, In b, Out inout, Out out) {
    k.add_rms_norm(a, b, 1e-5f, n, inout, out);
  });
  CheckRow("add", [&](int64_t n, In a, In, Out inout, Out) { k.add(a, n, inout); });
  CheckRow("silu_mul", [&](int64_t n, In a, In b, Out, Out out) { k.silu_mul(a, b, n, out); });
  CheckRow("rotate", [&](int64_t n, In a, In b, Out inout, Out) { k.rotate(a, b, n, inout); });
  CheckRow("layer_norm",
           [&](int64_t n, In a, In b, Out, Out out) { k.layer_norm(a, b, b + n, 1e-5f, n, out); });
  CheckRow("add_layer_norm", [&](int64_t n, In a, In b, Out inout, Out) {
    k.add_layer_norm(a, b, b + n, 1e-5f, n, inout);
  });
  CheckRow("mean_rows", [&](int64_t n, In a, In, Out, Out out) { k.mean_rows(a, n, 2, n, out); });
  CheckRow("normalize_row", [&](int64_t n, In, In, Out inout, Out) { k.normalize_row(n, inout); });
  const std::pair<const char*, void (*)(int64_t, float*)> activations[] = {
      {"gelu", k.gelu}, {"gelu_tanh", k.gelu_tanh}, {"relu", k.relu}, {"tanh", k.tanh}};
  for (const auto& [name, activate] : activations)
    CheckRow(name, [&, run = activate](int64_t n, In a, In, Out inout, Out out) {
      std::memcpy(out, a, static_cast<size_t>(2 * n) * sizeof(float));
      run(2 * n, out);
      run(n, inout);
    });
}

void CheckSampling(const KernelTable& k) {
  Results results("sampling");
  Random random(4);
  for (const int64_t count : {1, 15, 256, 300, 1000}) {
    std::vector<float> logits = random.Floats(count, 20, count > 16 ? 30 : 0);
    const float highest = k.highest_finite(logits.data(), count);
    const auto blocks = static_cast<size_t>((count + kWeightBlock - 1) / kWeightBlock);
    std::vector<float> weights(logits.size()), sums(blocks), most(blocks);
    k.weigh({logits.data(), count, highest, 0.7f, 1e-4f, weights.data(), sums.data(), most.data()});
    results.Add(std::vector<float>{highest});
    results.Add(weights);
    results.Add(sums);
    results.Add(most);
  }
}

std::vector<const KernelTable*> AvailableTables() {
  std::vector<const KernelTable*> tables = {&kScalarKernels};
#if defined(__aarch64__)
  tables.push_back(&kNeonKernels);
#elif defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx2) tables.push_back(&kAvx2Kernels);
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    tables.push_back(&kAvx512Kernels);
#endif
  return tables;
}

int Main(int argc, char** argv) {
  const KernelTable* table = nullptr;
  for (const KernelTable* each : AvailableTables()) {
    if (argc == 1) std::printf("%s\n", each->isa);
    if (argc == 2 && std::string(argv[1]) == each->isa) table = each;
  }
  if (argc == 1) return 0;
  if (table == nullptr) {
    std::fprintf(stderr, "usage: kernel_check [ISA]\n");
    return 2;
  }
  const KernelTable& k = *table;
  CheckProducts<float>("multiply_panel.f32", k.multiply_panel.f32);
  CheckProducts<F16>("multiply_panel.f16", k.multiply_panel.f16);
  CheckProducts<BF16>("multiply_panel.bf16", k.multiply_panel.bf16);
  CheckAttention<float>("attention.f32", k, k.write_kv.f32, k.attend_chunk.f32);
  CheckAttention<F16>("attention.f16", k, k.write_kv.f16, k.attend_chunk.f16);
  CheckAttention<BF16>("attention.bf16", k, k.write_kv.bf16, k.attend_chunk.bf16);
  CheckStored<float>("write_kv.f32", k.write_kv.f32);
  CheckStored<F16>("write_kv.f16", k.write_kv.f16);
  CheckStored<BF16>("write_kv.bf16", k.write_kv.bf16);
  CheckRows(k);
  CheckSampling(k);
  return 0;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) { return penstock::Main(argc, argv); }
