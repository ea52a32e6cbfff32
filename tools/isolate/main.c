/* The program that isolated libraries run in: all of it is in libtenon, which starts it. */
#include <tenon/tenon.h>

int main(void) { return tenon_isolate_main(); }
