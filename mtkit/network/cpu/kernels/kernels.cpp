// What Python calls, by ctypes: mtkit/network/cpu/compiled.py has the same structures and signatures.
//
// Compiled once for each kind of processor (hatch_build.py); which one is loaded is chosen there.

#include "network.h"

using namespace mtkit;

namespace {

// How a call ended.
enum Status : int32_t { kDone, kNoSuchToken, kNoMemory };

template <class Work>
Status run(Work work) {
  try {
    work();
    return kDone;
  } catch (const std::out_of_range&) {
    return kNoSuchToken;
  } catch (const std::exception&) {
    return kNoMemory;
  }
}

// Null where there is no memory.
template <class Make>
auto make_or_null(Make make) -> decltype(make()) {
  try {
    return make();
  } catch (const std::exception&) {
    return nullptr;
  }
}

}  // namespace

extern "C" {

// The digest of the sources that this was compiled from, and the compiler's options behind it.
const char* mtkit_made_of() { return MTKIT_MADE_OF; }

// A kind of processor that this was compiled for, by the instructions it uses.
const char* mtkit_instructions() {
#if defined(__AVX512BF16__)
  return "avx512-bf16";
#elif defined(__AVX512VNNI__)
  return "avx512-vnni";
#elif defined(__AVX2__)
  return "avx2";
#else
  return "plain";
#endif
}

// Whether this processor has the instructions of the kind that is named.
int32_t mtkit_supports(const char* instructions) {
  const auto is = [&](const char* name) { return std::strcmp(instructions, name) == 0; };
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool has_vnni =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512vnni");
  if (is("avx512-bf16")) return has_vnni && __builtin_cpu_supports("avx512bf16");
  if (is("avx512-vnni")) return has_vnni;
  if (is("avx2")) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
  return is("plain");
}

// A linear map; null where its sums might overflow, the arithmetic isn't this processor's, or memory
// ends.
//
// Args: `weight`, [outputs, inputs], int8_t for "int8", else float; `scales`, what a unit of each
// output is worth, for "int8" alone; `bias` may be null.
Linear* mtkit_new_linear(const char* arithmetic, int64_t num_outputs, int64_t num_inputs,
                         const void* weight, const float* scales, const float* bias) {
  const auto is = [&](const char* name) { return std::strcmp(arithmetic, name) == 0; };
  const auto make = [&](auto kind) -> Linear* {
    typedef decltype(kind) Kind;
    if (num_inputs > Kind::kMaxInputs) return nullptr;
    return make_or_null([&] {
      return new LinearOf<Kind>(num_outputs, num_inputs,
                                static_cast<const typename Kind::Given*>(weight), scales, bias);
    });
  };
  if (is("int8")) return make(Int8{});
  if (is("fp32")) return make(Fp32{});
#if defined(__AVX512BF16__)
  if (is("bf16")) return make(Bf16{});
#endif
  return nullptr;
}

void mtkit_free_linear(Linear* linear) { delete linear; }

int32_t mtkit_apply_linear(const Linear* linear, const float* values, int64_t num_rows,
                        float* outputs, int32_t num_threads) {
  return run([&] {
    static thread_local Rows rows;
    linear->reserve(rows, num_rows);
    for (int64_t row = 0; row < num_rows; ++row)
      linear->convert(rows, row, values + row * linear->num_inputs);
    linear->apply(rows, 0, num_rows, outputs, linear->num_outputs, Then::kWrite, num_threads);
  });
}

// The sums of products of integers, times each output's scale; for "int8" alone.
int32_t mtkit_multiply(const Linear* linear, const int8_t* values, int64_t num_rows, float* outputs,
                    int32_t num_threads) {
  const auto& integers = *static_cast<const LinearOf<Int8>*>(linear);
  return run([&] {
    Rows rows;
    integers.reserve(rows, num_rows);
    for (int64_t row = 0; row < num_rows; ++row)
      integers.take(rows, row, values + row * linear->num_inputs);
    integers.apply(rows, 0, num_rows, outputs, linear->num_outputs, Then::kWrite, num_threads);
  });
}

Stack* mtkit_new_stack(const Shape* shape, const Embedding* embedding, const Layer* layers,
                       int64_t num_layers, const Norm* final_norm) {
  return make_or_null([&] {
    return new Stack{*shape, *embedding, std::vector<Layer>(layers, layers + num_layers),
                     final_norm};
  });
}

void mtkit_free_stack(Stack* stack) { delete stack; }

int32_t mtkit_encode(const Stack* encoder, const int64_t* tokens, const int64_t* starts,
                     int64_t num_sentences, const float* positions, float* states,
                     int32_t num_threads) {
  return run([&] {
    encode(*encoder, tokens, starts, num_sentences, positions, states, num_threads);
  });
}

Search* mtkit_new_search(const Stack* decoder, const Linear* projection, const float* memory,
                         const int64_t* starts, int64_t num_sentences, int64_t watched_layer,
                         int64_t watched_head, int32_t num_threads) {
  return make_or_null([&] {
    return new Search(*decoder, *projection, memory, starts, num_sentences, watched_layer,
                      watched_head, num_threads);
  });
}

void mtkit_free_search(Search* search) { delete search; }

int32_t mtkit_step(Search* search, const int64_t* tokens, const float* position,
                   const Wanted* wanted, int32_t num_threads) {
  return run([&] { search->step(tokens, position, *wanted, num_threads); });
}

void mtkit_copy_attention(const Search* search, int64_t sentence, int64_t hypothesis, float* to) {
  search->copy_attention(sentence, hypothesis, to);
}

int32_t mtkit_select(Search* search, const int64_t* sentences, int64_t num_kept,
                     const int64_t* parents, int64_t beam) {
  return run([&] { search->select(sentences, num_kept, parents, beam); });
}

}  // extern "C"
