/* Tells with which sanitizer the tests are built: gcc defines macros, clang has features. */
#ifndef TENON_TESTS_SANITIZER_H
#define TENON_TESTS_SANITIZER_H

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#elif __has_feature(thread_sanitizer)
#define HAS_TSAN 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define HAS_ASAN 1
#endif
#ifdef __SANITIZE_THREAD__
#define HAS_TSAN 1
#endif
#if defined(HAS_ASAN) || defined(HAS_TSAN)
#define IS_INSTRUMENTED 1
#endif

#endif
