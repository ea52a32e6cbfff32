/* Stands for a library that exists when others are linked, and is missing (under its own name) when
 * they are loaded. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
int gone(void);
int gone(void) { return 1; }
