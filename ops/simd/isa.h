/* Macros for files that are compiled several times. Each file in this folder is compiled once
 * without TENON_SIMD, which defines its operators, and once per instruction set with TENON_SIMD
 * naming the set, which adds the same kernels, compiled for that set, to those operators.
 * Invariant: the plain build comes first in the library's list.
 *
 *   OPERATOR(add, "(Tensor a, Tensor b) -> Tensor", (TENON_DOC("..."), TENON_TRAITS(...)),
 *   LOOP("f32, f32 -> f32", f))
 *   FAMILY(core_arithmetic, OPERATOR(...) OPERATOR(...))
 *
 * Every item, also the last, ends with its own comma, so that X-macro tables need no separators. */
#ifndef TENON_OPS_ISA_H
#define TENON_OPS_ISA_H

#include <tenon/iterator.h>

#define ISA_JOIN_(a, b) a##_##b
#define ISA_JOIN(a, b) ISA_JOIN_(a, b)
#define ISA_TEXT_(word) #word
#define ISA_TEXT(word) ISA_TEXT_(word)
#define ISA_LIST(...) __VA_ARGS__

#define ISA_ITEMS(name, ...)                                                                       \
  TENON_C const tenon_item_t name[];                                                               \
  const tenon_item_t name[] = {__VA_ARGS__{TENON_TAG_END, 0, 0, 0, 0}};

#ifdef TENON_SIMD
#define FAMILY(name, ...) ISA_ITEMS(ISA_JOIN(name, TENON_SIMD), __VA_ARGS__)
#define OPERATOR(name, arguments, facts, ...) TENON_EXTEND("core::" #name, __VA_ARGS__)
#define LOOP(types, function) TENON_LOOP(types "; " ISA_TEXT(TENON_SIMD), function),
#define KERNEL(words, function) TENON_KERNEL("cpu " ISA_TEXT(TENON_SIMD) " " words, function),
#define STUB(words, function) TENON_STUB("cpu " ISA_TEXT(TENON_SIMD) " " words, function),
#else
#define FAMILY(name, ...) ISA_ITEMS(name, __VA_ARGS__)
#define OPERATOR(name, arguments, facts, ...) TENON_OP(#name arguments, ISA_LIST facts, __VA_ARGS__)
#define LOOP(types, function) TENON_LOOP(types, function),
#define KERNEL(words, function) TENON_KERNEL("cpu " words, function),
#define STUB(words, function) TENON_STUB("cpu " words, function),
#endif

#endif
