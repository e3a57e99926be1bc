#include "scheduler/step_planner.h"

#include <algorithm>

namespace penstock {
namespace {

constexpr int32_t CeilDiv(int64_t a, int64_t b) { return static_cast<int32_t>((a + b - 1) / b); }

bool IsSuspect(const Sequence& sequence) {
  return sequence.failures >= StepPlanner::kSuspectFailures;
}

Sequence* FindRunningSuspect(const SequenceTable& table) {
  for (const auto& sequence : table.running())
    if (IsSuspect(*sequence)) return sequence.get();
  return nullptr;
}

bool IsSuspectNext(const SequenceTable& table) {
  return !table.waiting().empty() && IsSuspect(*table.waiting().front());
}

void Add(Sequence& sequence, int32_t tokens, StepPlan& plan) {
  plan.run.push_back({&sequence, tokens, tokens == sequence.pending()});
}

// The newest running sequence that is younger than `sequence` and that no step in flight names.
Sequence* FindVictim(const Sequence& sequence, const SequenceTable& table) {
  const auto& running = table.running();
  for (size_t i = running.size(); i-- > 0 && running[i]->order > sequence.order;)
    if (running[i]->in_flight == 0) return running[i].get();
  return nullptr;
}

// A block for the next token of `sequence`, at the expense of younger ones if need be. (Those are
// not in `plan` yet: decodes are planned oldest first.)
bool ReserveNext(Sequence& sequence, SequenceTable& table, StepPlan& plan) {
  while (!table.Reserve(sequence, sequence.computed + 1)) {
    Sequence* victim = FindVictim(sequence, table);
    if (victim == nullptr) return false;
    table.Preempt(*victim);
    ++plan.preempted;
  }
  return true;
}

}  // namespace

struct StepPlanner::Census {
  int32_t decodes = 0;  // running past their prompt, in flight or not
  int64_t prefill = 0;  // prompt tokens to feed that could be fed soon
};

StepPlanner::Census StepPlanner::Count(const SequenceTable& table) {
  Census census;
  ready_.clear();
  for (const auto& sequence : table.running()) {
    if (!sequence->decoding()) {
      census.prefill += sequence->pending();
      continue;
    }
    ++census.decodes;
    if (sequence->pending() == 1) ready_.push_back(sequence.get());
  }
  const size_t startable =
      std::min(table.waiting().size(), static_cast<size_t>(table.free_slots()));
  const int64_t enough = int64_t{2} * options_.stages * options_.max_step_tokens;
  for (size_t i = 0; i < startable && census.prefill < enough; ++i)
    census.prefill += table.waiting()[i]->pending();
  return census;
}

StepPlan StepPlanner::Plan(SequenceTable& table, StepsInFlight in_flight) {
  StepPlan plan;
  Sequence* suspect = FindRunningSuspect(table);
  if (suspect != nullptr || IsSuspectNext(table)) {
    if (in_flight.steps > 0) return plan;
    if (suspect == nullptr) suspect = table.StartNext();
    if (suspect != nullptr) return PlanSuspect(*suspect);
  }
  const Census census = Count(table);
  // One step more than there are stages hides the host's share of a step from stage 0, but would
  // stand in the way of decodes that wait for their previous token.
  const int32_t depth = census.decodes > 0 ? std::min(options_.stages, options_.max_in_flight)
                                           : options_.max_in_flight;
  if (in_flight.steps >= depth) return plan;
  PlanDecodes(census, in_flight, table, plan);
  PlanPrefill(census, table, plan);
  return plan;
}

// It has just been started again, so it holds blocks for everything it has to feed.
StepPlan StepPlanner::PlanSuspect(Sequence& suspect) const {
  StepPlan plan;
  const int32_t tokens =
      std::min({suspect.pending(), options_.prefill_chunk, options_.max_step_tokens});
  (suspect.decoding() ? plan.decode_tokens : plan.prefill_tokens) = tokens;
  Add(suspect, tokens, plan);
  return plan;
}

// A group is never more than its part of all decodes, so those left over when groups were uneven
// find room in the following ones: nobody waits for longer than a round.
void StepPlanner::PlanDecodes(const Census& census, StepsInFlight in_flight, SequenceTable& table,
                              StepPlan& plan) {
  const auto ready = static_cast<int64_t>(ready_.size());
  const int32_t groups_left = std::max(1, options_.stages - in_flight.sampling);
  const int32_t group = std::min({CeilDiv(census.decodes, options_.stages),
                                  CeilDiv(ready, groups_left), options_.max_step_tokens});
  for (Sequence* sequence : ready_) {
    if (plan.decode_tokens == group) return;
    // Preempted just now, or without a block until somebody's step is committed.
    if (sequence->slot < 0 || !ReserveNext(*sequence, table, plan)) continue;
    Add(*sequence, 1, plan);
    ++plan.decode_tokens;
  }
}

// Prompts are cut finer than into P shares: with m shares the pipeline fills in 1/m of their time.
// The share only grows while prompts last, or the ends of prompts would be cut into slivers.
int32_t StepPlanner::PrefillShare(int64_t pending) {
  if (options_.stages == 1) return options_.max_step_tokens;
  if (pending == 0) share_ = 0;
  const int32_t share = std::max(CeilDiv(pending, int64_t{2} * options_.stages), kMinPrefillShare);
  share_ = std::min(std::max(share_, share), options_.max_step_tokens);
  return share_;
}

void StepPlanner::PlanPrefill(const Census& census, SequenceTable& table, StepPlan& plan) {
  int32_t budget =
      std::min(options_.max_step_tokens - plan.decode_tokens, PrefillShare(census.prefill));
  if (census.decodes > 0) budget = std::min(budget, options_.prefill_chunk);
  auto add_chunk = [&](Sequence& sequence) {
    const int32_t tokens = std::min({sequence.pending(), options_.prefill_chunk, budget});
    Add(sequence, tokens, plan);
    plan.prefill_tokens += tokens;
    budget -= tokens;
  };
  for (const auto& sequence : table.running()) {
    if (budget == 0) return;
    if (!sequence->decoding()) add_chunk(*sequence);
  }
  while (budget > 0 && !IsSuspectNext(table)) {
    Sequence* sequence = table.StartNext();
    if (sequence == nullptr) return;
    add_chunk(*sequence);
  }
}

}  // namespace penstock
