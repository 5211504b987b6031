# SPDX-License-Identifier: Apache-2.0
# Flags that every target of this project shares.
include_guard(GLOBAL)

add_library(backpass_flags INTERFACE)
target_compile_features(backpass_flags INTERFACE cxx_std_20)
# The bits of a result must not depend on what a compiler finds profitable: no fused multiply-add, no reassociation.
target_compile_options(backpass_flags INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-ffp-contract=off;-fno-fast-math>
  $<$<COMPILE_LANGUAGE:CUDA>:-fmad=false;-ftz=false;-prec-div=true;-prec-sqrt=true;-Xcompiler=-ffp-contract=off>)
target_compile_options(backpass_flags INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow>
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wshadow>)
# The index arithmetic and the conversions are constexpr: so kernels call what the CPU calls.
target_compile_options(backpass_flags INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>)
# CMake 3.25 does not know how to ask every nvcc for this.
target_compile_options(backpass_flags INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>)
# GCC 12 sees overlapping copies in std::string where there are none (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(backpass_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(BACKPASS_WERROR)
  target_compile_options(backpass_flags INTERFACE
    $<$<COMPILE_LANGUAGE:C,CXX>:-Werror> $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()
