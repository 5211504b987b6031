// SPDX-License-Identifier: Apache-2.0
// `backpass run OP ...`: an operator on .npy files. Nothing is written unless all went well.
#include "buffer.h"
#include "commands.h"
#include "device.h"
#include "device_options.h"
#include "npy.h"
#include "options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <span>

namespace tools {

namespace {

struct RunArguments {
  Problem problem;
  DeviceOptions device;
  std::string dtype;
  std::string x, dy, winners_in, out, winners_out;
};

// ---- What the options and files say --------------------------------------------------------------------

bool reads_winners(std::int32_t kind) { return kind == BP_MAX_POOL_GRAD || kind == BP_CONVERT_WINNERS; }

struct Files {
  std::optional<NpyArray> x, dy, winners;

  [[nodiscard]] const std::optional<NpyArray>& of(std::string_view tensor) const {
    if (tensor == "x") return x;
    if (tensor == "dy") return dy;
    return winners;  // "winners", "from"
  }
};

std::optional<NpyArray> read_values(const std::string& option, const std::string& path, const std::string& dtype) {
  if (path.empty()) return std::nullopt;
  NpyArray array = read_npy(path, dtype == "bf16");
  if (!dtype.empty() && dtype_name(array.dtype) != dtype) {
    throw UsageError(fmt::format("{}: {} holds {}, --dtype says {}", option, path, dtype_name(array.dtype), dtype));
  }
  return array;
}

// A file's type tells the form of its winners, save that u32 may number the taps of a very large window.
std::int32_t winners_kind_of(const NpyArray& array, const Ints& window) {
  if (array.dtype == BP_U8 || array.dtype == BP_U16) return BP_WINNERS_COMPACT;
  if (array.dtype != BP_U32 || compact_dtype(window) != BP_U32) return BP_WINNERS_FLAT;
  throw UsageError("--winners-kind: is missing (u32 winners of this window may be compact or flat)");
}

Files read_files(const RunArguments& a) {
  if (!a.dtype.empty()) parse_dtype("--dtype", a.dtype);  // refuses a name that is none
  Files files{read_values("--x", a.x, a.dtype), read_values("--dy", a.dy, a.dtype), std::nullopt};
  if (!a.winners_in.empty()) files.winners = read_npy(a.winners_in, false);
  return files;
}

void require(bool given, std::string_view option, std::string_view why = "") {
  if (!given) throw UsageError(fmt::format("{}: is missing{}", option, why));
}

void require_options(const RunArguments& a) {
  const std::int32_t kind = a.problem.kind;
  require(!a.out.empty(), "--out");
  if (reads_dy(kind)) require(!a.dy.empty(), "--dy");
  if (kind == BP_MAX_POOL_GRAD) {
    require(!a.x.empty() || !a.winners_in.empty(), "--x", ", and so is --winners-in that could stand for it");
    if (a.winners_in.empty() && a.problem.winners != BP_WINNERS_NONE)
      throw UsageError("--winners (or --winners-kind): needs --winners-in");
    if (!a.x.empty() && !a.winners_in.empty())
      throw UsageError("--winners-in: stands for --x, expected one of the two");
  } else if (reads_x(kind)) {
    require(!a.x.empty(), "--x");
  } else if (kind == BP_CONVERT_WINNERS) {
    require(!a.winners_in.empty(), "--winners-in");
  }
  if (kind == BP_MAX_POOL && a.problem.winners != BP_WINNERS_NONE) {
    require(!a.winners_out.empty(), "--winners-out", ", although --winners asks for them");
  }
}

void take_shapes(Problem& p, const Files& files) {
  if (files.x) {
    if (!p.x_shape.empty() && p.x_shape != files.x->sizes) {
      throw UsageError(fmt::format("--x-shape: is {}, but --x has sizes {}", fmt::join(p.x_shape, ","),
                                   fmt::join(files.x->sizes, ",")));
    }
    p.x_shape = files.x->sizes;
  }
  require(!p.x_shape.empty(), "--x-shape");
  if (files.dy) p.y_shape = files.dy->sizes;
  if (p.kind == BP_CONVERT_WINNERS) p.y_shape = files.winners->sizes;
}

// ---- Memory and outputs --------------------------------------------------------------------------------

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Memory = std::unique_ptr<std::byte, Free>;

Memory allocate(std::string_view what, std::size_t bytes) {
  Memory memory(static_cast<std::byte*>(std::malloc(std::max<std::size_t>(bytes, 1))));
  if (!memory) throw UsageError(fmt::format("{}: not enough memory for {} bytes", what, bytes));
  return memory;
}

std::size_t packed_bytes(const TensorSpec& spec) {
  return static_cast<std::size_t>(element_count(spec.sizes)) * dtype_size(spec.dtype);
}

using Inputs = std::vector<std::span<const std::byte>>;
using Outputs = std::vector<std::span<std::byte>>;

void call(const bp_operator* op, const std::vector<const void*>& in, const std::vector<void*>& out, void* workspace) {
  if (bp_operator_run(op, in.data(), in.size(), out.data(), out.size(), workspace, nullptr) != BP_OK ||
      bp_operator_check(op, workspace, nullptr) != BP_OK) {
    throw UsageError(bp_last_error());
  }
}

std::size_t workspace_bytes(const bp_operator* op) {
  std::size_t bytes = 0;
  bp_operator_workspace_size(op, &bytes);
  return bytes;
}

void run_here(const bp_operator* op, const Inputs& inputs, const Outputs& outputs) {
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const auto& bytes : inputs) in.push_back(bytes.data());
  for (const auto& bytes : outputs) out.push_back(bytes.data());
  call(op, in, out, allocate("workspace", workspace_bytes(op)).get());
}

// On copies in the device's memory.
void run_on_device(const bp_operator* op, const Inputs& inputs, const Outputs& outputs) {
  std::vector<DeviceMemory> in_memory, out_memory;
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const auto& bytes : inputs) {
    in.push_back(in_memory.emplace_back(bytes.size()).data());
    if (!bytes.empty()) in_memory.back().write(bytes);
  }
  for (const auto& bytes : outputs) out.push_back(out_memory.emplace_back(bytes.size()).data());
  call(op, in, out, DeviceMemory(workspace_bytes(op)).data());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].empty()) out_memory[i].read(outputs[i]);
  }
}

// Inputs are what the files hold, whatever the problem would make of them: the library says what does not fit.
Tensors bound_tensors(const Problem& p, const Files& files) {
  const std::optional<NpyArray>& values = files.x ? files.x : files.dy;
  Tensors bound = tensors(p, values ? values->dtype : files.winners->dtype);
  for (TensorSpec& spec : bound.inputs) {
    if (spec.absent) continue;
    const NpyArray& array = *files.of(spec.name);
    spec.dtype = array.dtype;
    spec.sizes = array.sizes;
    spec.strides = array.strides;
  }
  return bound;
}

// "-" is the standard stream, as everywhere.
void expand_dashes(RunArguments& a) {
  for (std::string* path : {&a.x, &a.dy, &a.winners_in}) {
    if (*path == "-") *path = "/dev/stdin";
  }
  for (std::string* path : {&a.out, &a.winners_out}) {
    if (*path == "-") *path = "/dev/stdout";
  }
}

int run(RunArguments& a) {
  Problem& p = a.problem;
  expand_dashes(a);
  if (p.kind == BP_MAX_POOL && !a.winners_out.empty() && p.winners == BP_WINNERS_NONE) p.winners = BP_WINNERS_COMPACT;
  require_options(a);
  const Files files = read_files(a);
  take_shapes(p, files);
  if (p.kind == BP_CONVERT_WINNERS && p.winners_from == BP_WINNERS_NONE) {
    const bool compact = files.winners->dtype == BP_U8 || files.winners->dtype == BP_U16;
    require(compact, "--winners-kind", " (the file may hold flat or plane indices)");
    p.winners_from = BP_WINNERS_COMPACT;
  }
  complete(p);
  if (p.kind == BP_MAX_POOL_GRAD && p.winners_dtype != 0 && files.winners && files.winners->dtype != p.winners_dtype) {
    throw UsageError(fmt::format("--winners-dtype: is {}, but the file holds {}", dtype_name(p.winners_dtype),
                                 dtype_name(files.winners->dtype)));
  }
  if (p.kind == BP_MAX_POOL_GRAD && files.winners && p.winners == BP_WINNERS_NONE) {
    p.winners = winners_kind_of(*files.winners, p.window);
  }

  const Tensors bound = bound_tensors(p, files);
  const CreateResult created = try_create(p, bound, a.device.create_options());
  if (!created.op) throw UsageError(created.error);

  std::vector<std::span<const std::byte>> inputs;
  for (const TensorSpec& spec : bound.inputs) {
    inputs.push_back(spec.absent ? std::span<const std::byte>()
                                 : std::span<const std::byte>(files.of(spec.name)->data));
  }
  std::vector<Memory> memory;
  std::vector<std::span<std::byte>> outputs;
  for (const TensorSpec& spec : bound.outputs) {
    memory.push_back(spec.absent ? nullptr : allocate(spec.name, packed_bytes(spec)));
    outputs.emplace_back(memory.back().get(), spec.absent ? 0 : packed_bytes(spec));
  }
  a.device.device == BP_DEVICE_CUDA ? run_on_device(created.op.get(), inputs, outputs)
                                    : run_here(created.op.get(), inputs, outputs);

  const bool as_void = (files.x && files.x->void_type) || (files.dy && files.dy->void_type);
  const std::string* paths[] = {&a.out, &a.winners_out};
  NpyWriter writer;
  for (std::size_t i = 0; i < bound.outputs.size(); ++i) {
    const TensorSpec& spec = bound.outputs[i];
    if (!spec.absent) writer.add(*paths[i], spec.dtype, spec.sizes, {memory[i].get(), packed_bytes(spec)}, as_void);
  }
  writer.commit();
  return 0;
}

void add_files(CLI::App& op, RunArguments& a) {
  const std::int32_t kind = a.problem.kind;
  if (reads_x(kind)) op.add_option("--x", a.x, "forward input")->type_name("F.npy");
  if (reads_dy(kind)) op.add_option("--dy", a.dy, "incoming gradient")->type_name("F.npy");
  if (reads_winners(kind)) op.add_option("--winners-in", a.winners_in, "stored winners")->type_name("F.npy");
  op.add_option("--out", a.out, "the result")->type_name("F.npy");
  if (kind == BP_MAX_POOL) {
    op.add_option("--winners-out", a.winners_out, "where to store the winners (compact unless --winners says flat)")
        ->type_name("F.npy");
  }
  if (kind == BP_CONVERT_WINNERS) return;
  op.add_option("--dtype", a.dtype, "the files' type; bf16 reads u2 and V2 as bf16")->type_name("T");
}

// Else they are those of dy or of the stored winners.
bool makes_y(std::int32_t kind) { return kind == BP_MAX_POOL || kind == BP_RESAMPLE || kind == BP_SLICE; }

void add_shapes(CLI::App& op, Problem& p) {
  const auto shape = [&](const std::string& option, Ints& target, const std::string& help) {
    op.add_option_function<std::string>(
          option,
          [option, &target](const std::string& text) {
            try {
              target = parse_ints(option, text);
            } catch (const UsageError& error) {
              throw CLI::ValidationError(error.what());
            }
          },
          help)
        ->type_name("N,N,...");
  };
  if (p.kind == BP_MAX_POOL_GRAD) {
    shape("--x-shape", p.x_shape, "sizes of x, where x itself is not given");
  } else if (!reads_x(p.kind)) {
    shape("--x-shape", p.x_shape, "sizes of x");
  }
  if (makes_y(p.kind)) shape("--y-shape", p.y_shape, "sizes of the output (default: by the parameters)");
}

}  // namespace

void add_run(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("run", "Runs an operator on .npy files");
  command->require_subcommand(1);
  for (const std::string_view name : operator_names()) {
    CLI::App* op = command->add_subcommand(std::string(name), operator_help(*operator_kind(name)));
    const auto arguments = std::make_shared<RunArguments>();
    arguments->problem.kind = *operator_kind(name);
    add_files(*op, *arguments);
    add_shapes(*op, arguments->problem);
    add_parameter_options(*op, arguments->problem, !makes_y(arguments->problem.kind));
    add_device_options(*op, arguments->device);
    op->callback([arguments, &chosen] { chosen = [arguments] { return run(*arguments); }; });
  }
}

}  // namespace tools
