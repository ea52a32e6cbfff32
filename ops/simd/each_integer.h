/* Includes BODY, the name of a header with the loops for one dtype, for each integer dtype, with
 * T (the element) and NAME(x) defined. BODY undefines T and NAME. */

#define T int8_t
#define NAME(x) x##_i8
#include BODY

#define T int16_t
#define NAME(x) x##_i16
#include BODY

#define T int32_t
#define NAME(x) x##_i32
#include BODY

#define T int64_t
#define NAME(x) x##_i64
#include BODY

#define T uint8_t
#define NAME(x) x##_u8
#include BODY

#define T uint16_t
#define NAME(x) x##_u16
#include BODY

#define T uint32_t
#define NAME(x) x##_u32
#include BODY

#define T uint64_t
#define NAME(x) x##_u64
#include BODY
