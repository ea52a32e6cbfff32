/* The functions for partitioners and passes, which an exported library does not have. MXNet looks
 * up all of these names, but calls only the two that return sizes. */
#define EXPORT __attribute__((visibility("default")))
#define NONE(name)                                                                                 \
  EXPORT int name(void);                                                                           \
  EXPORT int name(void) { return 0; }

/* clang-format off: a table of names */
/* clang-format off */
NONE(_partRegSize)
NONE(_partRegGetCount) NONE(_partRegGet) NONE(_partCallSupportedOps) NONE(_partCallCreateSelector)
    NONE(_partCallSelect) NONE(_partCallSelectInput) NONE(_partCallSelectOutput)
        NONE(_partCallFilter) NONE(_partCallReset) NONE(_partCallReviewSubgraph) NONE(_passRegSize)
            NONE(_passRegGet) NONE(_passCallGraphPass)
