/* SPDX-License-Identifier: Apache-2.0
 * Loaded before the library, this breaks it: `backpass check` must say so. BREAK=flip turns over one bit of the first
 * output of every run, BREAK=crash touches memory that is not there. */
#define _GNU_SOURCE
#include <backpass/backpass.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

bp_status bp_operator_run(const bp_operator* op, const void* const* inputs, size_t input_count, void* const* outputs,
                          size_t output_count, void* workspace, void* stream) {
  typedef bp_status (*run_function)(const bp_operator*, const void* const*, size_t, void* const*, size_t, void*, void*);
  run_function run = NULL;
  void* found = dlsym(RTLD_NEXT, "bp_operator_run");
  memcpy(&run, &found, sizeof run);
  const bp_status status = run(op, inputs, input_count, outputs, output_count, workspace, stream);
  const char* how = getenv("BREAK");
  if (how != NULL && strcmp(how, "crash") == 0) *(volatile char*)outputs[0] = *(volatile char*)(uintptr_t)64;
  if (how != NULL && strcmp(how, "flip") == 0) *(unsigned char*)outputs[0] ^= 1;
  return status;
}
