#include "shard/checkpoint/checkpoint.h"

#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "shard/base/status_macros.h"
#include "shard/checkpoint/gguf_checkpoint.h"
#include "shard/checkpoint/hf_folder.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

// The GGUF models in a folder, each by its (first) file.
absl::StatusOr<std::set<std::string>> FindGguf(const std::string& folder) {
  std::set<std::string> models;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string path = entry->path().string();
    if (absl::EndsWith(path, ".gguf")) models.insert(FirstOfSplit(path));
  }
  if (!error) return models;
  return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot list ", folder));
}

// A folder of GGUF files may hold a config.json too; weights decide.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenFolder(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::set<std::string> models, FindGguf(folder));
  if (models.empty() || HasSafetensors(folder)) return OpenHuggingFaceFolder(folder);
  if (models.size() == 1) return OpenGguf(*models.begin());
  return absl::InvalidArgumentError(
      absl::StrCat(folder, ": holds ", models.size(),
                   " GGUF models, name one of them: ", absl::StrJoin(models, ", ")));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Open(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status))
    return absl::NotFoundError(absl::StrCat(path, ": there is no such file or folder"));
  if (fs::is_directory(status)) return OpenFolder(path);
  return OpenGguf(path);
}

}  // namespace penstock
