#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "scheduler/sequence.h"
#include "scheduler/sequence_table.h"

namespace penstock {

// How sequences are put together.
enum class Batching : uint8_t {
  kContinuous,    // whoever is there, step by step
  kStatic,        // a batch starts when the one before has ended; who has finished drops out
  kStaticPadded,  // ... and who has finished is computed on until all have: what batching was
                  // before Orca. The static kinds are there to be compared with.
};

struct PlannerOptions {
  int32_t stages = 1;
  int32_t max_in_flight = 1;
  int32_t max_step_tokens = 0;
  int32_t prefill_chunk = 0;  // of one sequence in a step; of all of them while others decode
  int32_t max_unread =
      INT32_MAX;           // tokens that a reader may leave unread before its sequence pauses
  float context_cost = 0;  // ExecutorInfo::context_cost
  Batching batching = Batching::kContinuous;
};

// Steps launched and not yet committed.
struct StepsInFlight {
  int32_t steps = 0;
  int32_t sampling = 0;  // of those, the ones that draw a token for somebody
};

struct PlannedSequence {
  Sequence* sequence = nullptr;
  int32_t tokens = 0;    // how many of its pending tokens run in this step
  bool samples = false;  // they are the last of them: the next token is drawn
  bool prefill = false;  // counted among StepPlan::prefill_tokens
};

struct StepPlan {
  std::vector<PlannedSequence> run;
  int32_t decode_tokens = 0;
  int32_t prefill_tokens = 0;
  int32_t preempted = 0;  // sequences that gave way while planning
};

// The scheduling policy, without thread, clock or I/O; deterministic.
//
// Decodes go first, prompts fill what is left of the token budget in chunks, in order of precedence
// (iteration-level scheduling of Orca, OSDI'22; chunked prefill of Sarathi, arXiv 2308.16369). With
// P stages the decodes are cut into P groups of equal size, counting those in flight, and prefill
// into shares of which several are in flight at once, so that no stage idles and all take equal
// time (token throttling of gLLM, arXiv 2504.14775). Later chunks of a prompt attend to more, so
// they are made shorter: a share is a cost, in rows that attend to nothing. When blocks run out the
// last sequence by precedence without a step in flight gives way; so the first always progresses.
// One of a more urgent priority that waits takes the slot and blocks of a less urgent one that is
// behind it.
//
// A sequence that was in two failed steps without a committed token in between is a suspect: it
// runs alone, with nothing else in flight, so that a third failure is nobody else's.
class StepPlanner {
 public:
  static constexpr int32_t kSuspectFailures = 2;
  // Prompt tokens below which a smaller share costs more in re-read weights than it fills.
  static constexpr int32_t kMinPrefillShare = 64;

  explicit StepPlanner(const PlannerOptions& options) : options_(options) {}

  // At most so many prompt tokens join a step while others decode; the runner knows how long they
  // take. Beyond [1, prefill_chunk] it is clamped.
  void set_mixed_prefill(int32_t tokens) { mixed_prefill_ = tokens; }

  // The next step; empty when nothing should be launched now. Starts, preempts and gives blocks to
  // sequences of `table`; the caller marks what it launches (SequenceTable::Advance, in_flight).
  StepPlan Plan(SequenceTable& table, StepsInFlight in_flight);

 private:
  struct Census;
  Census Count(const SequenceTable& table);
  StepPlan PlanSuspect(Sequence& suspect) const;
  void PlanDecodes(const Census& census, StepsInFlight in_flight, SequenceTable& table,
                   StepPlan& plan);
  void PlanPrefill(const Census& census, SequenceTable& table, StepPlan& plan);
  double PrefillShare(const Census& census);
  int32_t ChunkFor(const Sequence& sequence, double cost) const;
  bool ReserveNext(Sequence& sequence, SequenceTable& table, StepPlan& plan);
  std::optional<size_t> FindNext(const SequenceTable& table) const;
  void YieldToUrgent(SequenceTable& table, StepPlan& plan) const;

  const PlannerOptions options_;
  int32_t mixed_prefill_ = INT32_MAX;
  bool batch_open_ = true;        // sequences may start; always, but in static batching
  double share_ = 0;              // cost of a step's prompt tokens, while the present prompts last
  std::vector<Sequence*> ready_;  // scratch: decodes that could run now
};

}  // namespace penstock
