#include "textflag.h"

// The checksum by carry-less multiplication, after Intel's "Fast CRC Computation for
// Generic Polynomials Using PCLMULQDQ Instruction" (Gopal et al., 2009), with bits in
// reflected order. X1 to X4 are four blocks of 16 bytes, which are folded over the
// input 64 bytes at a time, then into one, and that into 32 bits. The last 1 to 15
// bytes are a block together with the end of the one before them.

// shifts holds the operands of PSHUFB: from byte r on, what moves r bytes of a block
// to its end, and from byte 16+r on, what moves the others to its beginning.
DATA shifts<>+0(SB)/8, $0x8080808080808080
DATA shifts<>+8(SB)/8, $0x8080808080808080
DATA shifts<>+16(SB)/8, $0x0706050403020100
DATA shifts<>+24(SB)/8, $0x0f0e0d0c0b0a0908
DATA shifts<>+32(SB)/8, $0x8080808080808080
DATA shifts<>+40(SB)/8, $0x8080808080808080
GLOBL shifts<>(SB), RODATA|NOPTR, $48

// FOLD multiplies the block x by the factors k, with t for scratch, and adds y.
#define FOLD(k, x, t, y) \
	MOVOA     x, t          \
	PCLMULQDQ $0x00, k, x   \
	PCLMULQDQ $0x11, k, t   \
	PXOR      t, x          \
	PXOR      y, x

// SUM leaves in AX the inverted checksum of CX bytes, at least 64, at SI. KEEP4 and
// KEEP1 say what is done with them as they pass: four blocks in X11 to X14 at SI, or
// one in X11 at 0(SI) or -16(SI)(CX*1).
#define SUM \
	MOVOU   (SI), X11                \
	MOVOU   16(SI), X12              \
	MOVOU   32(SI), X13              \
	MOVOU   48(SI), X14              \
	KEEP4                            \
	PCMPEQL X1, X1                   \
	PSRLDQ  $12, X1                  \ // the initial value: 32 ones
	PXOR    X11, X1                  \
	MOVOA   X12, X2                  \
	MOVOA   X13, X3                  \
	MOVOA   X14, X4                  \
	ADDQ    $64, SI                  \
	SUBQ    $64, CX                  \
	CMPQ    CX, $64                  \
	JLT     join                     \
	MOVOU   ·factors+0(SB), X0       \
many:                               \
	MOVOU   (SI), X11                \
	MOVOU   16(SI), X12              \
	MOVOU   32(SI), X13              \
	MOVOU   48(SI), X14              \
	KEEP4                            \
	FOLD(X0, X1, X5, X11)            \
	FOLD(X0, X2, X6, X12)            \
	FOLD(X0, X3, X7, X13)            \
	FOLD(X0, X4, X8, X14)            \
	ADDQ    $64, SI                  \
	SUBQ    $64, CX                  \
	CMPQ    CX, $64                  \
	JGE     many                     \
join:                               \
	MOVOU   ·factors+16(SB), X9      \
	MOVOU   ·factors+32(SB), X10     \
	MOVOU   ·factors+48(SB), X0      \
	FOLD(X9, X1, X5, X4)             \
	FOLD(X10, X2, X6, X1)            \
	FOLD(X0, X3, X7, X2)             \
	MOVOA   X3, X1                   \
	CMPQ    CX, $16                  \
	JLT     tail                     \
one:                                \
	MOVOU   (SI), X11                \
	KEEP1                            \
	FOLD(X0, X1, X5, X11)            \
	ADDQ    $16, SI                  \
	SUBQ    $16, CX                  \
	CMPQ    CX, $16                  \
	JGE     one                      \
tail:                               \
	TESTQ   CX, CX                   \
	JEQ     reduce                   \
	MOVOU   -16(SI)(CX*1), X11       \
	KEEPTAIL                         \
	LEAQ    shifts<>(SB), AX         \
	MOVOU   (AX)(CX*1), X6           \
	MOVOU   16(AX)(CX*1), X0         \
	MOVOA   X1, X2                   \
	PSHUFB  X6, X1                   \
	PSHUFB  X0, X2                   \
	PBLENDVB X0, X11, X2             \
	MOVOU   ·factors+48(SB), X0      \
	FOLD(X0, X1, X5, X2)             \
reduce:                             \
	PCMPEQL X3, X3                   \
	PSRLQ   $32, X3                  \
	PCLMULQDQ $0x01, X1, X0          \ // 128 to 96 bits
	PSRLDQ  $8, X1                   \
	PXOR    X0, X1                   \
	MOVQ    ·factors+64(SB), X0      \
	MOVOA   X1, X2                   \
	PSRLDQ  $4, X2                   \
	PAND    X3, X1                   \
	PCLMULQDQ $0x00, X0, X1          \ // to 64
	PXOR    X2, X1                   \
	MOVOU   ·factors+80(SB), X0      \
	MOVOA   X1, X2                   \ // to 32, Barrett's way
	PAND    X3, X1                   \
	PCLMULQDQ $0x10, X0, X1          \
	PAND    X3, X1                   \
	PCLMULQDQ $0x00, X0, X1          \
	PXOR    X2, X1                   \
	PEXTRD  $1, X1, AX               \
	NOTL    AX

#define KEEP4
#define KEEP1
#define KEEPTAIL

// func sumFast(p *byte, n int) uint32
TEXT ·sumFast(SB), NOSPLIT, $0-20
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), CX
	SUM
	MOVL AX, ret+16(FP)
	RET

#undef KEEP4
#undef KEEP1
#undef KEEPTAIL

// DI is as far from SI as the copy is from what is copied.
#define KEEP4 \
	MOVOU X11, (DI)(SI*1)   \
	MOVOU X12, 16(DI)(SI*1) \
	MOVOU X13, 32(DI)(SI*1) \
	MOVOU X14, 48(DI)(SI*1)
#define KEEP1 MOVOU X11, (DI)(SI*1)
#define KEEPTAIL \
	ADDQ  DI, SI          \
	MOVOU X11, -16(SI)(CX*1)

// func sumCopyFast(dst, src *byte, n int) uint32
TEXT ·sumCopyFast(SB), NOSPLIT, $0-28
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	SUBQ SI, DI
	SUM
	MOVL AX, ret+24(FP)
	RET
