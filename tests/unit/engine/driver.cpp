// Checks linear maps against loops in fp64, then searches with a small network of fixed numbers, and
// prints what it finds. Compiled with the engine for CPUs that run under an emulator.

#include "engine.cpp"

#include <cstdio>

namespace {

// The same numbers in [-1, 1) on every CPU.
struct Draws {
  uint32_t state;
  float operator()() {
    state = state * 1664525u + 1013904223u;
    return float(int32_t(state >> 8) - (1 << 23)) / float(1 << 23);
  }
  std::vector<float> operator()(int64_t count, float scale, float mean = 0.0f) {
    std::vector<float> found;
    for (int64_t i = 0; i < count; ++i) found.push_back(mean + scale * (*this)());
    return found;
  }
};

double round_to_bfloat16(double value) {
  int power;
  const double part = std::frexp(value, &power);  // 8 significant bits, ties to even.
  return std::ldexp(std::nearbyint(std::ldexp(part, 8)), power - 8);
}

// Numbers as a precision multiplies them: of 8 bits, the largest is 127.
std::vector<double> narrow(const float* values, int64_t count, const std::string& precision) {
  std::vector<double> found(values, values + count);
  float largest = 0.0f;
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, std::fabs(values[i]));
  for (double& each : found) {
    if (precision == "bf16") each = round_to_bfloat16(each);
    if (precision == "int8" && largest > 0.0f)
      each = std::nearbyint(each / largest * 127.0) * largest / 127.0;
  }
  return found;
}

bool check_linear(const std::string& precision, int64_t outputs, int64_t inputs, int64_t rows) {
  Draws draw{uint32_t(outputs * 1000 + inputs * 10 + rows)};
  const std::vector<float> weight = draw(outputs * inputs, 0.5f), bias = draw(outputs, 1.0f),
                           values = draw(rows * inputs, 3.0f);
  Linear* linear = mtkit_new_linear(precision.c_str(), outputs, inputs, weight.data(), bias.data());
  std::vector<float> found(size_t(rows * outputs), NAN);
  if (mtkit_apply_linear(linear, values.data(), rows, found.data(), 2) != kDone) return false;
  mtkit_free_linear(linear);
  // A number at a rounding boundary may become either 8-bit integer.
  const double unit = precision == "int8" ? 3.0 / 127.0 * 0.5 : 0.0;
  for (int64_t row = 0; row < rows; ++row) {
    const std::vector<double> one = narrow(&values[size_t(row * inputs)], inputs, precision);
    for (int64_t output = 0; output < outputs; ++output) {
      const std::vector<double> other = narrow(&weight[size_t(output * inputs)], inputs, precision);
      double expected = bias[size_t(output)], size = 1.0;
      for (int64_t i = 0; i < inputs; ++i) {
        expected += one[size_t(i)] * other[size_t(i)];
        size += std::fabs(one[size_t(i)] * other[size_t(i)]);
      }
      const double off = std::fabs(double(found[size_t(row * outputs + output)]) - expected);
      if (!(off <= 1e-6 * size + unit)) {
        std::printf("%s %dx%d of %d rows: off by %g\n", precision.c_str(), int(outputs),
                    int(inputs), int(rows), off);
        return false;
      }
    }
  }
  return true;
}

constexpr int64_t kWidth = 20, kHeads = 2, kKey = 6, kValue = 5, kInner = 33, kVocab = 37,
                  kLength = 40;

// Everything that it makes lives until the end.
struct Maker {
  Draws draw{7};
  const char* precision;
  std::vector<std::unique_ptr<std::vector<float>>> kept;

  const float* make(int64_t count, float scale, float mean = 0.0f) {
    kept.push_back(std::make_unique<std::vector<float>>(draw(count, scale, mean)));
    return kept.back()->data();
  }
  Norm norm() { return Norm{make(kWidth, 0.3f, 1.0f), make(kWidth, 0.1f), 1e-5f}; }
  Linear* linear(int64_t outputs, int64_t inputs) {
    const float scale = 2.0f / std::sqrt(float(inputs));
    // One after the other: compilers differ in the order of arguments.
    const float* weight = make(outputs * inputs, scale);
    return mtkit_new_linear(precision, outputs, inputs, weight, make(outputs, 0.3f));
  }
  Stack* stack(bool is_decoder) {
    const int64_t keys = kHeads * kKey, values = kHeads * kValue;
    std::vector<Layer> layers;
    for (int i = 0; i < 2; ++i) {
      Layer layer{};
      layer.self_norm = norm(), layer.feed_forward_norm = norm();
      layer.query_key_value = linear(2 * keys + values, kWidth);
      layer.self_output = linear(kWidth, values);
      if (is_decoder) {
        layer.cross_norm = norm();
        layer.cross_query = linear(keys, kWidth);
        layer.cross_key_value = linear(keys + values, kWidth);
        layer.cross_output = linear(kWidth, values);
      }
      layer.inner = linear(kInner, kWidth), layer.outer = linear(kWidth, kInner);
      layers.push_back(layer);
    }
    const Shape shape{kWidth, kHeads, kKey, kValue, 0, kGelu};
    const Embedding embedding{make(kVocab * kWidth, 1.0f), kVocab, 1.0f, nullptr};
    return mtkit_new_stack(&shape, &embedding, layers.data(), 2, nullptr);
  }
};

bool search(const char* precision) {
  Maker maker;
  maker.precision = precision;
  Network network{};
  network.encoder = maker.stack(false), network.decoder = maker.stack(true);
  network.projection = maker.linear(kVocab, kWidth);
  network.source_positions = network.target_positions =
      Positions{maker.make(kLength * kWidth, 2.0f), kLength};
  network.watched_layer = -1;
  constexpr int64_t kSentences = 12;
  std::vector<int64_t> tokens, starts{0}, prompts(kSentences, kBos), limits(kSentences, 25), each;
  for (int64_t i = 0; i < kSentences; ++i) {
    for (int64_t j = 0; j < 2 + i; ++j) tokens.push_back(4 + (i * 7 + j * j * 3) % (kVocab - 4));
    starts.push_back(int64_t(tokens.size()));
  }
  for (int64_t i = 0; i <= kSentences; ++i) each.push_back(i);
  const std::vector<int64_t> none(kSentences + 1, 0);
  const Ragged<int64_t> empty{nullptr, none.data()};
  Requests requests{kSentences, {tokens.data(), starts.data()}, {prompts.data(), each.data()},
                    empty, none.data(), limits.data(), {empty, none.data()},
                    {empty, none.data()}, {nullptr, none.data()}};
  Settings settings{};
  settings.beam_size = settings.num_outputs = 3;
  settings.stop_margin = 5, settings.top_p = settings.temperature = 1.0;
  settings.penalty_alpha = 0.6;
  int32_t status;
  Outputs* found = mtkit_search(&network, 1, &requests, &settings, nullptr, 2, &status);
  if (status != kDone) return false;
  for (const auto& of_sentence : found->of_sentences)
    for (const Output& output : of_sentence) {
      std::printf("%s", precision);
      for (const int64_t token : output.tokens) std::printf(" %d", int(token));
      std::printf("\n");
    }
  mtkit_free_outputs(found);
  return true;
}

}  // namespace

int main() {
  std::printf("runs %s; has neon-dot: %d\n", mtkit_instructions(), mtkit_supports("neon-dot"));
  for (const char* precision : {"fp32", "bf16", "int8"}) {
    for (const int64_t outputs : {1, 5, 32, 67})
      for (const int64_t inputs : {1, 3, 16, 45})
        for (const int64_t rows : {1, 4, 9, 30})
          if (!check_linear(precision, outputs, inputs, rows)) return 1;
    if (!search(precision)) return 1;
  }
}
