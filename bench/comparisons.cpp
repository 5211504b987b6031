// SPDX-License-Identifier: Apache-2.0
// An operator against itself: one thread and several, its strides and packed copies.
#include "trial.h"

#include <algorithm>
#include <cstring>

namespace bench {

OneAndAll measure_threads(const tools::Problem& problem, const tools::Problem& small, std::int32_t dtype,
                          const Settings& settings) {
  const tools::Tensors specs = tools::tensors(problem, dtype);
  Settings alone = settings;
  alone.create.threads = 1;
  Operator one(problem, specs, alone.create), all(problem, specs, settings.create);
  OneAndAll results{result_of(problem, dtype, alone, one), result_of(problem, dtype, settings, all)};
  const Buffers buffers(problem, dtype, specs, std::min(sets_past_cache(one.bytes()), kMostSets));
  const auto verified = [&](Operator& op, const Settings& with, Result& result) {
    result.difference = verify(problem, small, dtype, op, specs, buffers.sets().front(), with);
    result.verified = result.difference.empty();
    return result.verified;
  };
  if (!verified(one, alone, results.one) || !verified(all, settings, results.all)) return results;

  Contest first(problem, specs, one, 1), second(problem, specs, all, results.all.threads);
  std::vector<Racer> racers;
  first.enter(racers, buffers.sets());
  second.enter(racers, buffers.sets());
  race(racers, buffers.sets().size(), settings.seconds, settings.least_repetitions);
  const auto keep = [&](Result& result, std::size_t racer) {
    (result.judged_hot ? result.hot : result.cold) = Contest::timing(racers, racer);
  };
  keep(results.one, 0);
  keep(results.all, Contest::kRacers);
  return results;
}

// ---- Strides -----------------------------------------------------------------------------------------------

namespace {

// The operator on packed copies. A tensor that is packed already is used where it is.
class PackedWay {
 public:
  PackedWay(const tools::Problem& problem, std::int32_t dtype, const tools::Tensors& specs,
            const tools::CreateOptions& options)
      : problem_(without_strides(problem)),
        specs_(tools::tensors(problem_, dtype)),
        op_(problem_, specs_, options),
        packed_(specs_) {
    for (std::size_t i = 0; i < specs.inputs.size(); ++i) {
      add_copy(before_, specs.inputs[i], specs_.inputs[i], i, options);
    }
    for (std::size_t i = 0; i < specs.outputs.size(); ++i) {
      add_copy(after_, specs_.outputs[i], specs.outputs[i], i, options);
    }
  }

  void run(const BufferSet& set) {
    in_ = set.in;
    out_ = set.out;
    for (Copy& copy : before_) {
      copy.op.run({set.in[copy.slot]}, {packed_.inputs[copy.slot].data()});
      in_[copy.slot] = packed_.in[copy.slot];
    }
    for (const Copy& copy : after_) out_[copy.slot] = packed_.out[copy.slot];
    op_.run(in_, out_);
    for (Copy& copy : after_) copy.op.run({packed_.out[copy.slot]}, {set.out[copy.slot]});
  }

 private:
  struct Copy {
    std::size_t slot;
    Operator op;
  };

  static tools::Problem without_strides(tools::Problem p) {
    for (tools::Ints* strides : {&p.x_strides, &p.dx_strides, &p.y_strides, &p.dy_strides, &p.winners_strides}) {
      strides->clear();
    }
    return p;
  }

  // A slice that is the whole of a tensor copies it.
  static void add_copy(std::vector<Copy>& copies, const tools::TensorSpec& from, const tools::TensorSpec& to,
                       std::size_t slot, tools::CreateOptions options) {
    if (from.absent || from.strides == to.strides) return;
    tools::Problem slice;
    slice.kind = BP_SLICE;
    slice.x_shape = from.sizes;
    slice.x_strides = from.strides;
    slice.y_strides = to.strides;
    tools::complete(slice);
    options.implementation.clear();
    copies.push_back({slot, Operator(slice, tools::tensors(slice, from.dtype), options)});
  }

  tools::Problem problem_;
  tools::Tensors specs_;
  Operator op_;
  BufferSet packed_;
  std::vector<Copy> before_, after_;
  std::vector<const void*> in_;
  std::vector<void*> out_;
};

// Whether both ways write the same bits; the operator's own are in the set.
bool agree(PackedWay& way, const BufferSet& set) {
  std::vector<std::vector<std::byte>> expected;
  for (const Memory& memory : set.outputs) {
    expected.emplace_back(memory.bytes().begin(), memory.bytes().end());
    if (memory.data() != nullptr) std::memset(memory.data(), 1, expected.back().size());  // as it was made
  }
  way.run(set);
  return std::ranges::equal(set.outputs, expected, [](const Memory& found, const std::vector<std::byte>& wanted) {
    return std::ranges::equal(found.bytes(), wanted);
  });
}

}  // namespace

Result measure_strides(const Strided& strided, std::int32_t dtype, const Settings& settings) {
  const tools::Problem& problem = strided.problem;
  const tools::Tensors specs = tools::tensors(problem, dtype);
  Operator op(problem, specs, settings.create);
  Result result = result_of(problem, dtype, settings, op);
  result.layout = strided.strides;
  const Buffers buffers(problem, dtype, specs, std::min(sets_past_cache(result.bytes), kMostSets));
  const std::vector<BufferSet>& sets = buffers.sets();
  result.difference = verify(problem, shrunk(problem), dtype, op, specs, sets.front(), settings);
  PackedWay packed(problem, dtype, specs, settings.create);
  if (result.difference.empty() && !agree(packed, sets.front()))
    result.difference = "packed copies give another result";
  result.verified = result.difference.empty();
  if (!result.verified) return result;

  Contest contest(problem, specs, op, result.threads);
  std::vector<Racer> racers;
  contest.enter(racers, sets);
  racers.emplace_back(calls_here(sets.size(), [&](std::size_t set) { packed.run(sets[set]); }));
  race(racers, sets.size(), settings.seconds, settings.least_repetitions);
  (result.judged_hot ? result.hot : result.cold) = Contest::timing(racers, 0);
  result.peers.push_back({.name = "packed", .median_ns = racers.back().median(), .agrees = true});
  return result;
}

}  // namespace bench
