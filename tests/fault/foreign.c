/* Decides whose memory an allocation is, see foreign.h; and wraps the functions of OpenCL
 * accordingly. The linker fills the driver's table with these wrappers (--wrap=ocl_api_open). */
#include "foreign.h"

#ifdef FOREIGN_IS_PASSED_OVER
#include <pthread.h>
#include <sanitizer/lsan_interface.h>
#include <stdbool.h>

#include "opencl/api.h"

/* Declared in the sanitizers' allocator_interface.h, which gcc does not install. */
int __sanitizer_install_malloc_and_free_hooks(void (*after_malloc)(const volatile void *, size_t),
                                              void (*before_free)(const volatile void *));

static _Thread_local int depth;   /* the nesting depth of foreign_begin */
static _Thread_local bool is_own; /* Tenon's own code started this thread */
/* Other code started this thread. If neither is set, it is not known yet. */
static _Thread_local bool is_foreign;

void foreign_begin(void) {
  if (depth++ == 0) __lsan_disable();
}

void foreign_end(void) {
  if (--depth == 0) __lsan_enable();
}

int foreign_leave(void) {
  int left = depth;
  if (left) __lsan_enable();
  depth = 0;
  return left;
}

void foreign_return(int left) {
  if (left) __lsan_disable();
  depth = left;
}

/* threads */

void foreign_is_own_thread(void) {
  /* libc allocated something before the thread's first line ran. */
  if (is_foreign) foreign_end();
  is_own = true;
  is_foreign = false;
}

/* Called after each allocation of the process. */
static void see_allocation(const volatile void *memory, size_t size) {
  (void)size;
  if (is_own || is_foreign) return;
  is_foreign = true;
  foreign_begin(); /* until the thread ends */
  __lsan_ignore_object((const void *)memory);
}

static void see_release(const volatile void *memory) { (void)memory; }

static void watch(void) {
  (void)__sanitizer_install_malloc_and_free_hooks(see_allocation, see_release);
}

void foreign_watch_threads(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  foreign_is_own_thread();
  pthread_once(&once, watch);
}

/* OpenCL */

/* Turns (A, B) into A a1, B a2, and into a1, a2. */
#define TYPED_1(a) a a1
#define TYPED_2(a, b) TYPED_1(a), b a2
#define TYPED_3(a, b, c) TYPED_2(a, b), c a3
#define TYPED_4(a, b, c, d) TYPED_3(a, b, c), d a4
#define TYPED_5(a, b, c, d, e) TYPED_4(a, b, c, d), e a5
#define TYPED_6(a, b, c, d, e, f) TYPED_5(a, b, c, d, e), f a6
#define TYPED_7(a, b, c, d, e, f, g) TYPED_6(a, b, c, d, e, f), g a7
#define TYPED_8(a, b, c, d, e, f, g, h) TYPED_7(a, b, c, d, e, f, g), h a8
#define TYPED_9(a, b, c, d, e, f, g, h, i) TYPED_8(a, b, c, d, e, f, g, h), i a9
#define TYPED_10(a, b, c, d, e, f, g, h, i, j) TYPED_9(a, b, c, d, e, f, g, h, i), j a10
#define NAMED_1 a1
#define NAMED_2 NAMED_1, a2
#define NAMED_3 NAMED_2, a3
#define NAMED_4 NAMED_3, a4
#define NAMED_5 NAMED_4, a5
#define NAMED_6 NAMED_5, a6
#define NAMED_7 NAMED_6, a7
#define NAMED_8 NAMED_7, a8
#define NAMED_9 NAMED_8, a9
#define NAMED_10 NAMED_9, a10
#define NUMBER_(a, b, c, d, e, f, g, h, i, j, n, ...) n
#define NUMBER(...) NUMBER_(__VA_ARGS__, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define TYPED(...) (JOIN(TYPED_, NUMBER(__VA_ARGS__))(__VA_ARGS__))
#define NAMED(...) (JOIN(NAMED_, NUMBER(__VA_ARGS__)))

static ocl_api_t driver; /* the driver's own functions */

#define PASS_OVER_(result, name, parameters)                                                       \
  static result OCL_CALL pass_over_##name TYPED parameters {                                       \
    foreign_begin();                                                                               \
    result found = driver.name NAMED parameters;                                                   \
    foreign_end();                                                                                 \
    return found;                                                                                  \
  }
OCL_FUNCTIONS(PASS_OVER_)

tenon_status_t __real_ocl_api_open(const tenon_device_context_t *context);
tenon_status_t __wrap_ocl_api_open(const tenon_device_context_t *context);

tenon_status_t __wrap_ocl_api_open(const tenon_device_context_t *context) {
  foreign_watch_threads();
  foreign_begin();
  tenon_status_t status = __real_ocl_api_open(context);
  foreign_end();
  if (status != TENON_OK) return status;
  driver = ocl;
#define OCL_PASS_OVER_(result, name, parameters) ocl.name = pass_over_##name;
  OCL_FUNCTIONS(OCL_PASS_OVER_)
  return TENON_OK;
}
#endif
