// SPDX-License-Identifier: Apache-2.0
// Other libraries in the same race. Each is a process of its own: neither the command line nor the library links to it,
// and its threads are its own affair. The two speak in lines over pipes:
//
//   peer:   NAME VERSION                                   as soon as it can be asked
//   bench:  prepare op=OP dtype=T layout=L device=D sets=N KEY=VALUE...
//   peer:   ready            or, where it has no such thing:     absent WHY
//   bench:  run FIRST_SET UNTIMED TIMED
//   peer:   NANOSECONDS      of the timed calls, by its own clock
//   bench:  show             where the device is not the CPU: put the last output into its file
//   peer:   shown
//   bench:  release
//   peer:   released
//
// Keys are the names of the problem's parameters and of its tensors. A tensor's value is a list of files, one for each
// set of buffers (or one for all), which both processes map: so inputs are the same bytes, and the bench can look at
// results. A peer on another device makes N sets of its own of them. The winners of a pooling are the peer's own, from
// its own forward pass over x.
#pragma once

#include "buffers.h"
#include "harness.h"
#include "problem.h"
#include "race.h"

#include <sys/types.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace bench {

// What a peer is asked to do. `x` is that of the forward pass, where the operator itself reads only stored winners.
struct PeerTask {
  const tools::Problem& problem;
  const tools::Tensors& specs;
  const std::vector<BufferSet>& sets;
  const Memory* x = nullptr;
  std::size_t device_sets = 0;  // 0: the device is the CPU, and has the sets above
};

class PeerProcess {
 public:
  // Null where it does not answer.
  static std::unique_ptr<PeerProcess> start(const std::vector<std::string>& command);
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }  // with its version
  // Whether it has such an operator.
  bool prepare(const PeerTask& task);
  double run(const Turn& turn);
  void show();
  void release();

 private:
  PeerProcess() = default;
  std::string ask(const std::string& line);
  std::string read_line();

  pid_t process_ = -1;
  std::FILE* to_ = nullptr;
  std::FILE* from_ = nullptr;
  std::string name_;
};

// Those that are there.
class Peers {
 public:
  Peers() = default;  // none
  static Peers on_cpu(int threads);
  static Peers on_cuda();
  static Peers in_graphs();  // PyTorch alone: its calls one by one, and out of a graph

  [[nodiscard]] const std::vector<std::unique_ptr<PeerProcess>>& running() const { return running_; }
  [[nodiscard]] const std::string& summary() const { return summary_; }  // one line

 private:
  void start(const std::vector<std::string>& command, std::string_view name, std::string_view hint);

  std::vector<std::unique_ptr<PeerProcess>> running_;
  std::string summary_ = "peers: none asked for";
};

// Those that have such an operator, ready to race. What they compute is compared with the verified result in the first
// set.
std::vector<PeerProcess*> prepared(const Peers& peers, const PeerTask& task, std::vector<PeerResult>& results);

}  // namespace bench
