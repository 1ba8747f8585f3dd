#include "textflag.h"

#define SYS_clock_gettime 228

// In the kernel's C calling convention: DI is the clock (0 is the time of day), SI where seconds and
// nanoseconds go.
TEXT ·wallClock(SB),NOSPLIT|NOFRAME,$0
	MOVL	$SYS_clock_gettime, AX
	SYSCALL
	CMPL	DI, $0
	JNE	done
	MOVQ	·offset(SB), CX
	MOVQ	(CX), CX
	ADDQ	CX, (SI)
done:
	RET

TEXT ·addressOfWallClock(SB),NOSPLIT,$0-8
	LEAQ	·wallClock(SB), AX
	MOVQ	AX, ret+0(FP)
	RET
