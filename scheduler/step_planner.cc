#include "scheduler/step_planner.h"

#include <algorithm>
#include <cmath>

namespace penstock {
namespace {

// Waiting sequences looked at for one that can start. Only those that are about to share somebody's
// prompt are passed over.
constexpr size_t kStartCandidates = 64;

constexpr int32_t CeilDiv(int64_t a, int64_t b) { return static_cast<int32_t>((a + b - 1) / b); }

bool IsSuspect(const Sequence& sequence) {
  return sequence.failures >= StepPlanner::kSuspectFailures;
}

// A step in flight draws the last token it may take.
bool IsAtLastToken(const Sequence& sequence) {
  return !sequence.padding && sequence.pending() == 0 &&
         sequence.generated() + 1 >= sequence.request.max_tokens;
}

Sequence* FindRunningSuspect(const SequenceTable& table) {
  for (const auto& sequence : table.running())
    if (IsSuspect(*sequence)) return sequence.get();
  return nullptr;
}

bool IsSuspectNext(const SequenceTable& table) {
  return !table.waiting().empty() && IsSuspect(*table.waiting().front());
}

void Add(Sequence& sequence, int32_t tokens, bool prefill, StepPlan& plan) {
  plan.run.push_back({&sequence, tokens, tokens == sequence.pending(), prefill});
  (prefill ? plan.prefill_tokens : plan.decode_tokens) += tokens;
}

// What feeding `tokens` to a sequence costs, in rows that attend to nothing.
double Cost(double tokens, double context, double context_cost) {
  return tokens * (1 + context_cost * (context + tokens / 2));
}

// The last running sequence behind `sequence` that no step in flight names and `yields` to it; one
// that is paused for its reader before all others.
template <typename Yields>
Sequence* FindVictim(const Sequence& sequence, const SequenceTable& table, int32_t max_unread,
                     Yields yields) {
  Sequence* victim = nullptr;
  const auto& running = table.running();
  for (size_t i = running.size(); i-- > 0;) {
    Sequence& candidate = *running[i];
    if (&candidate == &sequence || candidate.in_flight > 0) continue;
    if (candidate.paused(max_unread)) return &candidate;
    if (victim == nullptr && candidate.precedence > sequence.precedence && yields(candidate))
      victim = &candidate;
  }
  return victim;
}

// Whether `waiting` could have the blocks and the slot it needs once all that yield have given
// theirs.
template <typename Yields>
bool CouldYield(const Sequence& waiting, const SequenceTable& table, int32_t max_unread,
                Yields yields) {
  int64_t blocks = table.pool().available();
  int32_t slots = table.free_slots();
  for (const auto& candidate : table.running()) {
    if (candidate->in_flight > 0) continue;
    if (!candidate->paused(max_unread) &&
        !(candidate->precedence > waiting.precedence && yields(*candidate)))
      continue;
    blocks += static_cast<int64_t>(candidate->blocks.size());
    ++slots;
  }
  return slots > 0 && blocks >= table.pool().BlocksFor(std::ssize(waiting.tokens));
}

}  // namespace

struct StepPlanner::Census {
  int32_t decodes = 0;      // running past their prompt, in flight or not, with more to come
  double prefill_cost = 0;  // of the prompt tokens that could be fed soon
};

StepPlanner::Census StepPlanner::Count(const SequenceTable& table) {
  Census census;
  ready_.clear();
  for (const auto& sequence : table.running()) {
    if (!sequence->decoding()) {
      census.prefill_cost += Cost(sequence->pending(), sequence->computed, options_.context_cost);
      continue;
    }
    const bool ends = options_.batching != Batching::kStaticPadded && IsAtLastToken(*sequence);
    if (ends || sequence->paused(options_.max_unread)) continue;
    ++census.decodes;
    if (sequence->pending() == 1) ready_.push_back(sequence.get());
  }
  const size_t startable =
      std::min(table.waiting().size(), static_cast<size_t>(table.free_slots()));
  const double enough = 2.0 * options_.stages * options_.max_step_tokens;
  for (size_t i = 0; i < startable && census.prefill_cost < enough; ++i)
    census.prefill_cost += Cost(table.waiting()[i]->pending(), 0, options_.context_cost);
  return census;
}

StepPlan StepPlanner::Plan(SequenceTable& table, StepsInFlight in_flight) {
  StepPlan plan;
  Sequence* suspect = FindRunningSuspect(table);
  if (suspect != nullptr || IsSuspectNext(table)) {
    if (in_flight.steps > 0) return plan;
    if (suspect == nullptr) suspect = table.Start(0);
    if (suspect != nullptr) return PlanSuspect(*suspect);
  }
  if (batch_open_) YieldToUrgent(table, plan);
  const Census census = Count(table);
  // One step more than there are stages hides the host's share of a step from stage 0, but would
  // stand in the way of decodes that wait for their previous token.
  const int32_t depth = census.decodes > 0 ? std::min(options_.stages, options_.max_in_flight)
                                           : options_.max_in_flight;
  if (in_flight.steps >= depth) return plan;
  if (options_.batching != Batching::kContinuous) {
    // A static batch is filled and its prompts are computed before any of it decodes.
    batch_open_ = table.running().empty() || (batch_open_ && census.prefill_cost > 0);
    if (!batch_open_ || census.prefill_cost == 0) PlanDecodes(census, in_flight, table, plan);
  } else {
    PlanDecodes(census, in_flight, table, plan);
  }
  PlanPrefill(census, table, plan);
  return plan;
}

// It has just been started again, so it holds blocks for everything it has to feed.
StepPlan StepPlanner::PlanSuspect(Sequence& suspect) const {
  StepPlan plan;
  const int32_t tokens =
      std::min({suspect.pending(), options_.prefill_chunk, options_.max_step_tokens});
  Add(suspect, tokens, !suspect.decoding(), plan);
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
    // Gone or preempted just now, or without a block until somebody's step is committed.
    if (sequence == nullptr || sequence->slot < 0 || !ReserveNext(*sequence, table, plan)) continue;
    Add(*sequence, 1, /*prefill=*/false, plan);
  }
}

// A block for the next token of `sequence`, at the expense of those behind it if need be. (They are
// not in `plan` yet: decodes are planned in order. One that is paused is never in it.)
bool StepPlanner::ReserveNext(Sequence& sequence, SequenceTable& table, StepPlan& plan) {
  while (!table.Reserve(sequence, sequence.computed + 1)) {
    Sequence* victim =
        FindVictim(sequence, table, options_.max_unread, [](const Sequence&) { return true; });
    if (victim == nullptr) return false;
    // It does not come back, and is destroyed.
    if (victim->padding) std::ranges::replace(ready_, victim, nullptr);
    table.Preempt(*victim);
    ++plan.preempted;
  }
  return true;
}

// Prompts are cut finer than into P shares: with m shares the pipeline fills in 1/m of their time.
// Many of them no coarser than one that fills a step: while the first share is on the first stage
// the others idle, and the other way round at the end. The share only grows while prompts last, or
// the ends of prompts would be cut into slivers.
double StepPlanner::PrefillShare(const Census& census) {
  const double most = options_.max_step_tokens;
  if (options_.stages == 1) return most;
  if (census.prefill_cost == 0) share_ = 0;
  const double cost = std::min(census.prefill_cost, Cost(most, 0, options_.context_cost));
  const double share = std::ceil(cost / (2.0 * options_.stages));
  share_ = std::min(std::max({share_, share, static_cast<double>(kMinPrefillShare)}), most);
  return share_;
}

// The most tokens of `sequence` whose cost stays within `cost`: the positive root of
// context_cost / 2 * n^2 + (1 + context_cost * context) * n = cost. A chunk does not get shorter
// than what re-reading the weights is worth.
int32_t StepPlanner::ChunkFor(const Sequence& sequence, double cost) const {
  const double a = options_.context_cost / 2, b = 1 + options_.context_cost * sequence.computed;
  const double tokens = a > 0 ? (std::sqrt(b * b + 4 * a * cost) - b) / (2 * a) : cost / b;
  const double least = std::min(cost, static_cast<double>(kMinPrefillShare));
  return static_cast<int32_t>(std::ceil(std::max(tokens, least) - 1e-6));
}

void StepPlanner::PlanPrefill(const Census& census, SequenceTable& table, StepPlan& plan) {
  int32_t room = options_.max_step_tokens - plan.decode_tokens;
  double budget = PrefillShare(census);
  if (census.decodes > 0)
    budget = std::min(budget,
                      static_cast<double>(std::clamp(mixed_prefill_, 1, options_.prefill_chunk)));
  const auto add_chunk = [&](Sequence& sequence) {
    // One stage that does nothing else has no use for chunks of equal time.
    const bool even = options_.stages > 1 || census.decodes > 0;
    const double most = std::min(budget, static_cast<double>(options_.prefill_chunk));
    const int32_t fitting = even ? ChunkFor(sequence, most) : static_cast<int32_t>(most);
    const int32_t tokens = std::min({sequence.pending(), room, fitting});
    budget -= even ? Cost(tokens, sequence.computed, options_.context_cost) : tokens;
    Add(sequence, tokens, /*prefill=*/true, plan);
    room -= tokens;
  };
  for (const auto& sequence : table.running()) {
    if (room < 1 || budget < 1) return;
    if (!sequence->decoding()) add_chunk(*sequence);
  }
  while (room >= 1 && budget >= 1 && !IsSuspectNext(table) && batch_open_) {
    // Nobody overtakes for being smaller.
    const auto next = FindNext(table);
    Sequence* sequence = next ? table.Start(*next) : nullptr;
    if (sequence == nullptr) return;
    add_chunk(*sequence);
  }
}

// The first that is worth starting, if anybody waits who is not about to share somebody's prompt.
std::optional<size_t> StepPlanner::FindNext(const SequenceTable& table) const {
  const size_t candidates = std::min(table.waiting().size(), kStartCandidates);
  for (size_t i = 0; i < candidates; ++i) {
    const Sequence& waiting = *table.waiting()[i];
    if (!waiting.paused(options_.max_unread) && !table.WillShare(waiting)) return i;
  }
  return std::nullopt;
}

// Less urgent sequences, and those paused for their readers, give up slots and blocks until the
// next one that waits could start.
void StepPlanner::YieldToUrgent(SequenceTable& table, StepPlan& plan) const {
  const auto& running = table.running();
  const auto next = FindNext(table);
  if (!next) return;
  const Sequence& waiting = *table.waiting()[*next];
  const auto yields = [&waiting](const Sequence& candidate) {
    return candidate.request.priority > waiting.request.priority;
  };
  const auto gives_way = [&](const auto& candidate) {
    return yields(*candidate) || candidate->paused(options_.max_unread);
  };
  if (std::none_of(running.begin(), running.end(), gives_way)) return;
  if (!CouldYield(waiting, table, options_.max_unread, yields)) return;
  while (!table.Fits(waiting)) {
    Sequence* victim = FindVictim(waiting, table, options_.max_unread, yields);
    if (victim == nullptr) return;
    table.Preempt(*victim);
    ++plan.preempted;
  }
}

}  // namespace penstock
