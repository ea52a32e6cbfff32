/* Models: any bytes are read, compiled and run within bounds, or refused with a message. */
#include "attempt.h"
#include "damage.h"

size_t LLVMFuzzerMutate(unsigned char *data, size_t size, size_t capacity);
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
size_t LLVMFuzzerCustomMutator(unsigned char *data, size_t size, size_t capacity, unsigned seed);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  attempt_start();
  uint64_t operators = attempt_operators();
  attempt_t a = attempt_model(data, size, MODELS, size % 2 ? TENON_COMPILE_PLAIN : 0);
  if (a.is_fickle) a.wrong = "the same run ended in another way after one with other shapes";
  if (!a.wrong && attempt_operators() != operators) a.wrong = "operators came or went";
  if (!a.wrong) return 0;
  fprintf(stderr, "wrong: %s; last message: %s\n", a.wrong, tenon_error());
  abort();
}

/* Most of these changes leave the file a valid message, which libFuzzer's own changes seldom do. */
size_t LLVMFuzzerCustomMutator(unsigned char *data, size_t size, size_t capacity, unsigned seed) {
  static damage_fields_t fields;
  damage_t d = {seed, data, size, capacity};
  if (damage_random(&d, 4) == 0 || !size) return LLVMFuzzerMutate(data, size, capacity);
  for (uint64_t i = 0, times = 1 + damage_random(&d, 3); i < times; i++)
    damage_message(&d, &fields);
  return d.size;
}
