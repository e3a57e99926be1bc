#include "shard/checkpoint/gguf_checkpoint.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "shard/base/status_macros.h"
#include "shard/checkpoint/gguf_config.h"
#include "shard/checkpoint/gguf_file.h"
#include "shard/checkpoint/gguf_names.h"
#include "shard/checkpoint/json.h"
#include "shard/checkpoint/table_checkpoint.h"

namespace penstock {
namespace {

using nlohmann::json;

// "-00002-of-00003.gguf" at the end of a path.
struct SplitName {
  std::string prefix;
  int64_t count = 1;
  std::string Part(int64_t i) const {
    return absl::StrFormat("%s-%05d-of-%05d.gguf", prefix, i + 1, count);
  }
};

SplitName ParseSplitName(const std::string& path) {
  constexpr size_t kTail = sizeof("-00001-of-00003.gguf") - 1;
  if (path.size() < kTail) return {};
  const absl::string_view tail = absl::string_view(path).substr(path.size() - kTail);
  SplitName name{path.substr(0, path.size() - kTail)};
  int64_t number = 0;
  if (!absl::SimpleAtoi(tail.substr(1, 5), &number) ||
      !absl::SimpleAtoi(tail.substr(10, 5), &name.count))
    return {};
  const bool ours = number >= 1 && number <= name.count && name.Part(number - 1) == path;
  return ours ? name : SplitName{};
}

absl::StatusOr<int64_t> HeadCount(const json& config, const char* key, const std::string& source) {
  const json* value = FindMember(config, key);
  if (value != nullptr && value->is_number_unsigned() && *value > 0 && *value < 65536)
    return value->get<int64_t>();
  return absl::InvalidArgumentError(
      absl::StrCat(source, ": its number of attention heads (", key, ") is not usable"));
}

class GgufCheckpoint : public TableCheckpoint {
 public:
  explicit GgufCheckpoint(std::string path) : TableCheckpoint(std::move(path)) {}

  absl::Status Load() {
    const SplitName split = ParseSplitName(path_);
    std::vector<StoredTensor> tensors;
    for (int64_t i = 0; i < split.count; ++i)
      RETURN_IF_ERROR(AddFile(split.count == 1 ? path_ : split.Part(i), i, tensors));
    RETURN_IF_ERROR(CheckSplit(split.count, std::ssize(tensors)));
    ASSIGN_OR_RETURN(const std::string architecture, GgufArchitecture(metadata_, path_));
    return Present(architecture, std::move(tensors));
  }

 private:
  absl::Status AddFile(const std::string& path, int64_t number,
                       std::vector<StoredTensor>& tensors) {
    ASSIGN_OR_RETURN(std::unique_ptr<File> file, File::Open(path));
    files_.push_back(std::move(file));
    ASSIGN_OR_RETURN(GgufFile gguf, ReadGguf(*files_.back()));
    const json* stated = FindMember(gguf.metadata, "split.no");
    if (stated != nullptr && *stated != number)
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": key split.no: is not ", number, ", as its name says"));
    for (StoredTensor& tensor : gguf.tensors) tensors.push_back(std::move(tensor));
    if (number == 0) metadata_ = std::move(gguf.metadata);
    return absl::OkStatus();
  }

  absl::Status CheckSplit(int64_t files, int64_t tensors) const {
    const json* count = FindMember(metadata_, "split.count");
    if (count != nullptr && *count != files && !(*count == 0 && files == 1))
      return absl::InvalidArgumentError(absl::StrCat(
          path_, ": key split.count: is ", count->is_number() ? count->dump() : "no number",
          ", but the file's name makes it ", files));
    const json* stated = FindMember(metadata_, "split.tensors.count");
    if (stated != nullptr && files > 1 && *stated != tensors)
      return absl::InvalidArgumentError(absl::StrCat(path_, ": key split.tensors.count: the ",
                                                     files, " files hold ", tensors, " tensors"));
    return absl::OkStatus();
  }

  absl::Status Present(const std::string& architecture, std::vector<StoredTensor> tensors) {
    const bool known = IsKnownGgufArchitecture(architecture);
    TensorTable renamed;  // the config tells the heads, which tell how rows are interleaved
    for (StoredTensor& tensor : tensors) {
      if (known) tensor.info.name = HuggingFaceName(tensor.info.name);
      RETURN_IF_ERROR(renamed.Add(tensor));
    }
    ASSIGN_OR_RETURN(config_, MakeConfig(metadata_, renamed, path_));
    if (architecture == "llama") RETURN_IF_ERROR(MarkInterleaved(tensors));
    for (StoredTensor& tensor : tensors) RETURN_IF_ERROR(table_.Add(std::move(tensor)));
    return absl::OkStatus();
  }

  // The converter of llama models reorders q and k for rotary embeddings of neighbours.
  absl::Status MarkInterleaved(std::vector<StoredTensor>& tensors) const {
    ASSIGN_OR_RETURN(const int64_t heads, HeadCount(config_, "num_attention_heads", path_));
    ASSIGN_OR_RETURN(const int64_t kv_heads, HeadCount(config_, "num_key_value_heads", path_));
    for (StoredTensor& tensor : tensors) {
      const bool q = absl::StrContains(tensor.info.name, ".self_attn.q_proj.");
      if (!q && !absl::StrContains(tensor.info.name, ".self_attn.k_proj.")) continue;
      const int64_t groups = q ? heads : kv_heads;
      const int64_t rows = tensor.info.shape.empty() ? 0 : tensor.info.shape.front();
      if (rows == 0 || rows % (2 * groups) != 0 || tensor.info.shape.size() > 2)
        return TensorError(absl::InvalidArgumentError(absl::StrCat("has ", rows, " rows, which ",
                                                                   groups, " heads cannot share")),
                           tensor.file->path(), tensor.info.name);
      tensor.interleaved_rows = rows / groups;
    }
    return absl::OkStatus();
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenGguf(const std::string& path) {
  auto checkpoint = std::make_unique<GgufCheckpoint>(path);
  RETURN_IF_ERROR(checkpoint->Load());
  return checkpoint;
}

std::string FirstOfSplit(const std::string& path) {
  const SplitName name = ParseSplitName(path);
  return name.count == 1 ? path : name.Part(0);
}

}  // namespace penstock
