#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/strings/string_view.h"
#include "shard/backend/activation.h"

namespace penstock {

// How a family's configuration spells what all of them say.
struct EncoderKeys {
  const char *hidden, *intermediate, *layers, *heads, *activation;
};

// How a family's checkpoint spells its tensors, without ".weight" and ".bias".
struct EncoderNames {
  const char* base;    // before the names below in a checkpoint that has a head too
  const char* layers;  // layer i's names begin with "layers.i."
  const char *query, *key, *value, *attention_out, *attention_norm;
  const char *up, *down, *mlp_norm;
  // The classification head: a layer on the first row, within or beside the base, and the scores.
  const char *head_dense, *head_out;
};

// What a family of one-shot encoders (BERT, Devlin et al. 2018, and its descendants) is when its
// configuration does not say otherwise, and how it spells things. One row of the table per family;
// adding an encoder that is the same computation under other names is adding a row.
struct EncoderFamily {
  const char* name;          // `model_type`
  const char* class_prefix;  // of the classes PrefixModel and PrefixForSequenceClassification

  // Absent keys.
  int32_t vocab, hidden, intermediate, layers, heads, positions;
  int32_t token_types;  // 0: the family has none
  int32_t pad;          // `pad_token_id`
  float norm_eps;

  // What the family computes.
  bool positions_after_pad;  // position p reads row pad + 1 + p
  Activation head_activation;
  EncoderKeys keys;
  EncoderNames names;
};

std::span<const EncoderFamily> EncoderFamilies();
const EncoderFamily* FindEncoderFamily(absl::string_view name);  // null when there is none

// "bert (BertModel, BertForSequenceClassification), ..." for error messages.
std::string KnownEncoders();

}  // namespace penstock
