// The C API for ctypes; mtkit/engine/library.py has the same structures and signatures.
//
// It is compiled once for each kind of CPU (hatch_build.py); library.py chooses which one is loaded.

#include "search.h"

#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

using namespace mtkit;

namespace {

// How a call ended.
enum Status : int32_t { kDone, kNoSuchToken, kNoMemory, kCancelled };

template <class Work>
Status run(Work work) {
  try {
    work();
    return kDone;
  } catch (const Cancelled&) {
    return kCancelled;
  } catch (const std::out_of_range&) {
    return kNoSuchToken;
  } catch (const std::exception&) {
    return kNoMemory;
  }
}

struct Outputs {
  std::vector<std::vector<Output>> of_sentences;
};

// Null if memory is short.
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

// The digest of the sources that this was compiled from, followed by the compiler's options.
const char* mtkit_made_of() { return MTKIT_MADE_OF; }

// A kind of processor that this was compiled for, by the instructions it uses.
const char* mtkit_instructions() {
#if defined(__AMX_TILE__)
  return "amx";
#elif defined(__AVX512BF16__)
  return "avx512-bf16";
#elif defined(__AVX512VNNI__)
  return "avx512-vnni";
#elif defined(__AVX2__)
  return "avx2";
#elif defined(__ARM_FEATURE_DOTPROD)
  return "neon-dot";
#else
  return "plain";
#endif
}

// Whether this processor has the named kind's instructions.
int32_t mtkit_supports(const char* instructions) {
  const auto is = [&](const char* name) { return std::strcmp(instructions, name) == 0; };
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool has_vnni =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512vnni");
  const bool has_bf16 = has_vnni && __builtin_cpu_supports("avx512bf16");
  if (is("amx")) return has_bf16 && allow_tiles();
  if (is("avx512-bf16")) return has_bf16;
  if (is("avx512-vnni")) return has_vnni;
  if (is("avx2")) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#elif defined(__aarch64__) && defined(__linux__)
  if (is("neon-dot")) return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#elif defined(__aarch64__) && defined(__APPLE__)
  int has_dot_product = 0;
  size_t size = sizeof has_dot_product;
  if (is("neon-dot"))
    return sysctlbyname("hw.optional.arm.FEAT_DotProd", &has_dot_product, &size, nullptr, 0) == 0 &&
           has_dot_product != 0;
#endif
  return is("plain");
}

// A linear map; null where its sums might overflow, or without memory.
//
// Args: `weight`, [outputs, inputs]; `bias` may be null.
Linear* mtkit_new_linear(const char* precision, int64_t num_outputs, int64_t num_inputs,
                         const float* weight, const float* bias) {
  const auto is = [&](const char* name) { return std::strcmp(precision, name) == 0; };
  const auto make = [&](auto kind) -> Linear* {
    typedef decltype(kind) Kind;
    if (num_inputs > Kind::kMaxInputs) return nullptr;
    return make_or_null([&] { return new LinearOf<Kind>(num_outputs, num_inputs, weight, bias); });
  };
  if (is("int8")) return make(Int8{});
  if (is("bf16")) return make(Bf16{});
  return make(Fp32{});
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

Stack* mtkit_new_stack(const Shape* shape, const Embedding* embedding, const Layer* layers,
                       int64_t num_layers, const Norm* final_norm) {
  return make_or_null([&] {
    return new Stack{*shape, *embedding, std::vector<Layer>(layers, layers + num_layers),
                     final_norm};
  });
}

void mtkit_free_stack(Stack* stack) { delete stack; }

// Searches; null unless `status` is 0.
Outputs* mtkit_search(const Network* networks, int64_t num_networks, const Requests* requests,
                      const Settings* settings, const int32_t* cancelled, int32_t num_threads,
                      int32_t* status) {
  Outputs* found = nullptr;
  *status = run([&] {
    Search search(networks, num_networks, *requests, *settings, cancelled);
    search.run(num_threads);
    found = new Outputs{std::move(search.outputs)};
  });
  return found;
}

// Writes the number of outputs of each sentence, and of tokens and numbers of attention of each
// output.
void mtkit_count_outputs(const Outputs* outputs, int64_t* num_outputs) {
  for (const auto& of_sentence : outputs->of_sentences)
    *num_outputs++ = int64_t(of_sentence.size());
}

void mtkit_measure_outputs(const Outputs* outputs, int64_t* num_tokens, int64_t* num_weights) {
  for (const auto& of_sentence : outputs->of_sentences)
    for (const Output& output : of_sentence) {
      *num_tokens++ = int64_t(output.tokens.size());
      *num_weights++ = int64_t(output.attention.size());
    }
}

// Writes all outputs' tokens, concatenated, their cumulative log-probabilities and attention, and
// each one's score.
void mtkit_copy_outputs(const Outputs* outputs, int64_t* tokens, float* cumulative, double* scores,
                        float* attention) {
  for (const auto& of_sentence : outputs->of_sentences)
    for (const Output& output : of_sentence) {
      tokens = std::copy(output.tokens.begin(), output.tokens.end(), tokens);
      cumulative = std::copy(output.cumulative.begin(), output.cumulative.end(), cumulative);
      attention = std::copy(output.attention.begin(), output.attention.end(), attention);
      *scores++ = output.score;
    }
}

void mtkit_free_outputs(Outputs* outputs) { delete outputs; }

// Scores given targets; see `score`.
int32_t mtkit_score(const Network* networks, int64_t num_networks, const Requests* requests,
                    const int64_t* targets, const int64_t* target_starts, float* log_probabilities,
                    float* attention, const int64_t* attention_starts, const int32_t* cancelled,
                    int32_t num_threads) {
  return run([&] {
    score(networks, num_networks, *requests, Ragged<int64_t>{targets, target_starts},
          log_probabilities, attention, attention_starts, cancelled, num_threads);
  });
}

}  // extern "C"
