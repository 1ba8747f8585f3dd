#include "textflag.h"

#define SYS_clock_gettime 113

// In the kernel's C calling convention: R0 is the clock (0 is the time of day), R1 where seconds and
// nanoseconds go.
TEXT ·wallClock(SB),NOSPLIT|NOFRAME,$0
	MOVD	R0, R3
	MOVD	$SYS_clock_gettime, R8
	SVC
	CBNZ	R3, done
	MOVD	·offset(SB), R4
	MOVD	(R4), R4
	MOVD	(R1), R5
	ADD	R4, R5
	MOVD	R5, (R1)
done:
	RET

TEXT ·addressOfWallClock(SB),NOSPLIT,$0-8
	MOVD	$·wallClock(SB), R0
	MOVD	R0, ret+0(FP)
	RET
