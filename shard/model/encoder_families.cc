#include "shard/model/encoder_families.h"

#include "absl/strings/str_cat.h"

namespace penstock {
namespace {

constexpr EncoderKeys kBertKeys = {.hidden = "hidden_size",
                                   .intermediate = "intermediate_size",
                                   .layers = "num_hidden_layers",
                                   .heads = "num_attention_heads",
                                   .activation = "hidden_act"};

constexpr EncoderNames kBertNames = {.base = "bert",
                                     .layers = "encoder.layer",
                                     .query = "attention.self.query",
                                     .key = "attention.self.key",
                                     .value = "attention.self.value",
                                     .attention_out = "attention.output.dense",
                                     .attention_norm = "attention.output.LayerNorm",
                                     .up = "intermediate.dense",
                                     .down = "output.dense",
                                     .mlp_norm = "output.LayerNorm",
                                     .head_dense = "pooler.dense",
                                     .head_out = "classifier"};

constexpr EncoderNames RobertaNames() {
  EncoderNames names = kBertNames;
  names.base = "roberta";
  names.head_dense = "classifier.dense";
  names.head_out = "classifier.out_proj";
  return names;
}

// The defaults are those of the families' configuration classes in the reference implementation.
constexpr EncoderFamily kFamilies[] = {
    {.name = "bert",
     .class_prefix = "Bert",
     .vocab = 30522,
     .hidden = 768,
     .intermediate = 3072,
     .layers = 12,
     .heads = 12,
     .positions = 512,
     .token_types = 2,
     .pad = 0,
     .norm_eps = 1e-12f,
     .positions_after_pad = false,
     .head_activation = Activation::kTanh,
     .keys = kBertKeys,
     .names = kBertNames},
    {.name = "roberta",
     .class_prefix = "Roberta",
     .vocab = 50265,
     .hidden = 768,
     .intermediate = 3072,
     .layers = 12,
     .heads = 12,
     .positions = 512,
     .token_types = 2,
     .pad = 1,
     .norm_eps = 1e-12f,
     .positions_after_pad = true,
     .head_activation = Activation::kTanh,
     .keys = kBertKeys,
     .names = RobertaNames()},
    {.name = "xlm-roberta",
     .class_prefix = "XLMRoberta",
     .vocab = 30522,
     .hidden = 768,
     .intermediate = 3072,
     .layers = 12,
     .heads = 12,
     .positions = 512,
     .token_types = 2,
     .pad = 1,
     .norm_eps = 1e-12f,
     .positions_after_pad = true,
     .head_activation = Activation::kTanh,
     .keys = kBertKeys,
     .names = RobertaNames()},
    {.name = "distilbert",
     .class_prefix = "DistilBert",
     .vocab = 30522,
     .hidden = 768,
     .intermediate = 3072,
     .layers = 6,
     .heads = 12,
     .positions = 512,
     .token_types = 0,
     .pad = 0,
     .norm_eps = 1e-12f,
     .positions_after_pad = false,
     .head_activation = Activation::kRelu,
     .keys = {.hidden = "dim",
              .intermediate = "hidden_dim",
              .layers = "n_layers",
              .heads = "n_heads",
              .activation = "activation"},
     .names = {.base = "distilbert",
               .layers = "transformer.layer",
               .query = "attention.q_lin",
               .key = "attention.k_lin",
               .value = "attention.v_lin",
               .attention_out = "attention.out_lin",
               .attention_norm = "sa_layer_norm",
               .up = "ffn.lin1",
               .down = "ffn.lin2",
               .mlp_norm = "output_layer_norm",
               .head_dense = "pre_classifier",
               .head_out = "classifier"}},
};

}  // namespace

std::span<const EncoderFamily> EncoderFamilies() { return kFamilies; }

const EncoderFamily* FindEncoderFamily(absl::string_view name) {
  for (const EncoderFamily& row : kFamilies)
    if (name == row.name) return &row;
  return nullptr;
}

std::string KnownEncoders() {
  std::string out;
  for (const EncoderFamily& row : kFamilies)
    absl::StrAppend(&out, out.empty() ? "" : ", ", row.name, " (", row.class_prefix, "Model, ",
                    row.class_prefix, "ForSequenceClassification)");
  return out;
}

}  // namespace penstock
