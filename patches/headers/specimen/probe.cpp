// Includes the specimen header the way ggml's HIP build meets the vendor's: __any is there first,
// then ggml's macro, then the header. Compiles only where the header leaves __any_sync alone.
static inline int __any(int predicate) {
    return predicate != 0;
}

#define __any_sync(mask, var) __any(var)

#include <hip/amd_detail/cooperative_groups/details/info.h>

int probe(const int * pointer) {
    asm volatile("" : : _CG_ASM_PTR_CONSTRAINT(pointer));
    return __any_sync(0xffffffff, *pointer);
}
