// SPDX-License-Identifier: Apache-2.0
// The edge of the C ABI: every exception becomes a status and a sentence. Used by all doors that stand at that edge.
#pragma once

#include "core/status.h"

#include <new>

namespace bp {

// The sentence of the last failing call on this thread, "" before any.
const char* last_error() noexcept;

// Keeps the sentence, cut where it is too long, and returns the status.
bp_status failed(bp_status status, const char* text) noexcept;

template <class F>
bp_status guarded(F&& f) noexcept {
  try {
    f();
    return BP_OK;
  } catch (const Failure& failure) {
    return failed(failure.code(), failure.what());
  } catch (const std::bad_alloc&) {
    return failed(BP_OUT_OF_MEMORY, "backpass: out of memory");
  } catch (const std::exception& unexpected) {
    return failed(BP_INTERNAL, unexpected.what());
  } catch (...) {
    return failed(BP_INTERNAL, "backpass: an unknown exception");
  }
}

}  // namespace bp
