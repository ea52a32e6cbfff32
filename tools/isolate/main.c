/* The program that runs isolated libraries. libtenon starts it and implements all of it. */
#include <tenon/tenon.h>

int main(void) { return tenon_isolate_main(); }
