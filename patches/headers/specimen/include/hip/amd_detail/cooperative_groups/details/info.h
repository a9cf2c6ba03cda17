// A specimen written for keyelab, not a vendor file: the two constructs that break the build.
#pragma once

// The letter for "a pointer in a register" in inline assembly. 'l' is a constraint of NVIDIA's
// compiler; clang for gfx928 answers: invalid input constraint 'l' in asm.
#if defined(_WIN64)
#define _CG_ASM_PTR_CONSTRAINT "l"
#elif defined(__LP64__)
#define _CG_ASM_PTR_CONSTRAINT "l"
#else
#define _CG_ASM_PTR_CONSTRAINT "r"
#endif

// ggml defines the macro __any_sync(mask, var) as __any(var) before it includes this header, so
// that the line below reads: int __any(int predicate), a second definition of that function.
static inline int __any_sync(unsigned mask, int predicate) {
    return mask != 0 && predicate != 0;
}
