// SPDX-License-Identifier: Apache-2.0
// A program that uses an installed or embedded backpass: the 3x3 example of the DirectML document, once with each form.
#include <backpass/backpass.hpp>

#include <cstddef>
#include <cstdio>
#include <vector>

int main() {
  const std::vector<float> x{1, 2, 3, 2, 4, 2, 5, 6, 7}, dy{1, 2, 4, 5}, expected{0, 0, 0, 0, 3, 0, 0, 4, 5};
  std::vector<float> once(9, -1), planned(9, -1);
  const backpass::Tensor x_view(x, {1, 1, 3, 3}), dy_view(dy, {1, 1, 2, 2});

  backpass::max_pool_grad(x_view, dy_view, backpass::Tensor(once, {1, 1, 3, 3}), {.window = {2, 2}, .strides = {1, 1}});

  const backpass::Operator op(backpass::MaxPoolGrad{.x = x_view.desc(),
                                                    .dy = dy_view,
                                                    .dx = backpass::TensorDesc{.sizes = {1, 1, 3, 3}},
                                                    .window = {.size = {2, 2}, .strides = {1, 1}}});
  std::vector<std::byte> workspace(op.workspace_size());
  op.run({x.data(), dy.data()}, {planned.data()}, workspace.data());

  const bool right = once == expected && planned == expected;
  std::printf("max_pool_grad: %s\n", right ? "as documented" : "WRONG");
  return right ? 0 : 1;
}
