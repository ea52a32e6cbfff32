/* Stands for a library that is there when others are linked, and gone (under its own name) when
 * they are loaded. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
int gone(void);
int gone(void) { return 1; }
