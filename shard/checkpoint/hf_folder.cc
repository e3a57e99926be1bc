#include "shard/checkpoint/hf_folder.h"

#include <filesystem>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "shard/base/status_macros.h"
#include "shard/checkpoint/file.h"
#include "shard/checkpoint/json.h"
#include "shard/checkpoint/safetensors.h"
#include "shard/checkpoint/sentence_transformers.h"
#include "shard/checkpoint/table_checkpoint.h"

namespace penstock {
namespace {

using nlohmann::json;

constexpr int64_t kMaxConfigBytes = 16 << 20;
constexpr int64_t kMaxIndexBytes = 100 << 20;
constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";

class HuggingFaceFolder : public TableCheckpoint {
 public:
  HuggingFaceFolder(std::string folder, json config) : TableCheckpoint(std::move(folder)) {
    config_ = std::move(config);
  }

  // All tensors of one file.
  absl::Status AddFile(const std::string& name) {
    ASSIGN_OR_RETURN(std::vector<StoredTensor> tensors, OpenFile(name));
    for (StoredTensor& tensor : tensors) RETURN_IF_ERROR(table_.Add(std::move(tensor)));
    return absl::OkStatus();
  }

  // Those that the index says come from it, and all of those.
  absl::Status AddFile(const std::string& name, const std::vector<std::string>& wanted) {
    ASSIGN_OR_RETURN(std::vector<StoredTensor> tensors, OpenFile(name));
    absl::flat_hash_map<absl::string_view, StoredTensor*> by_name;
    for (StoredTensor& tensor : tensors) by_name[tensor.info.name] = &tensor;
    for (const std::string& tensor : wanted) {
      const auto found = by_name.find(tensor);
      if (found == by_name.end())
        return absl::InvalidArgumentError(absl::StrCat(path_, "/", kIndexFile, ": tensor ", tensor,
                                                       " is said to be in ", name,
                                                       ", which lacks it"));
      RETURN_IF_ERROR(table_.Add(*found->second));
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<std::vector<StoredTensor>> OpenFile(const std::string& name) {
    ASSIGN_OR_RETURN(std::unique_ptr<File> file, File::Open(absl::StrCat(path_, "/", name)));
    files_.push_back(std::move(file));
    return ReadSafetensors(*files_.back());
  }
};

// Only a plain name of a file in the same folder.
bool IsPlainFileName(absl::string_view name) {
  return absl::EndsWith(name, ".safetensors") && !absl::StrContains(name, '/') &&
         !absl::StrContains(name, '\\') && !absl::StrContains(name, absl::string_view("\0", 1)) &&
         !absl::StartsWith(name, ".");
}

using FileTensors = std::map<std::string, std::vector<std::string>>;  // file name -> its tensors

absl::StatusOr<FileTensors> ReadIndex(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path, kMaxIndexBytes));
  ASSIGN_OR_RETURN(const json index, ParseJson(text, path));
  const json* map = FindMember(index, "weight_map");
  if (map == nullptr || !map->is_object())
    return absl::InvalidArgumentError(absl::StrCat(path, ": has no object weight_map"));
  FileTensors files;
  for (const auto& [tensor, file] : map->items()) {
    const std::string* name = file.get_ptr<const std::string*>();
    if (name == nullptr || !IsPlainFileName(*name))
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": tensor ", tensor, ": its file must be the name of a .safetensors file in the",
          " same folder", name == nullptr ? "" : absl::StrCat(", but is \"", *name, "\"")));
    files[*name].push_back(tensor);
  }
  return files;
}

bool Holds(const std::string& folder, const char* file) {
  std::error_code ignored;
  return std::filesystem::exists(absl::StrCat(folder, "/", file), ignored);
}

absl::Status AddWeights(const std::string& folder, HuggingFaceFolder& checkpoint) {
  if (Holds(folder, kSingleFile)) return checkpoint.AddFile(kSingleFile);
  if (!Holds(folder, kIndexFile))
    return absl::NotFoundError(
        absl::StrCat(folder, ": has neither ", kSingleFile, " nor ", kIndexFile));
  ASSIGN_OR_RETURN(const FileTensors files, ReadIndex(absl::StrCat(folder, "/", kIndexFile)));
  for (const auto& [file, tensors] : files) RETURN_IF_ERROR(checkpoint.AddFile(file, tensors));
  return absl::OkStatus();
}

}  // namespace

bool HasSafetensors(const std::string& folder) {
  return Holds(folder, kSingleFile) || Holds(folder, kIndexFile);
}

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenHuggingFaceFolder(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/config.json");
  ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path, kMaxConfigBytes));
  ASSIGN_OR_RETURN(json config, ParseJson(text, path));
  if (!config.is_object())
    return absl::InvalidArgumentError(absl::StrCat(path, ": is no JSON object"));
  RETURN_IF_ERROR(AddSentenceTransformers(folder, &config));
  auto checkpoint = std::make_unique<HuggingFaceFolder>(folder, std::move(config));
  RETURN_IF_ERROR(AddWeights(folder, *checkpoint));
  return checkpoint;
}

}  // namespace penstock
