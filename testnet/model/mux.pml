/*
 * A mux with two inputs and a safe frame: what the two programs, the clock and the daemon may do,
 * in every order. `check` beside this file checks it.
 *
 *	Program    puts frames into an input, which are live for LIFE periods    one for each input
 *	Clock      ends a period, unless the daemon has work that is due
 *	Mux        reads, decides, puts                        bridge/mux/mux.go, selector.go
 *	Fault      kills the daemon, and starts it again
 *
 * A program puts at most one frame in a period. The daemon does what is due before the period
 * ends: it has a CPU. While it is dead, nothing is put, and periods go on.
 *
 * What is claimed:
 *
 *	no frame of the lower input is put while the higher is live    Mux
 *	live frames of both inputs are never put in one period         Mux
 *	no frame that is not live is put                               Mux
 *	one period after the higher has expired, the output has the
 *	newest frame that the lower has put since                      Clock
 *	one period after no input is live, the output has the safe
 *	frame                                                          Clock
 *
 * BROKEN_... takes one part of the mux away, to see the claim fail. Not in the model: hold,
 * catch_up, suspensions, stamps in the future, and an output whose lock is taken.
 */

#ifndef FAULTS
#define FAULTS 2
#endif
#define LIFE 2                  /* periods for which a frame is live */
#define PERIODS 5               /* of a run */

#define NOTHING 2               /* output without a frame, or no input */
#define SAFE 3

byte left[2];                   /* periods for which the newest frame of an input is live */
byte put[2];                    /* number of the newest frame of an input; 0 before the first */
bool hasPut[2];                 /* in this period */
bool isWoken = true;            /* the daemon has work that is due */
bool isAlive = true;
bool isIdle = true;             /* the daemon is between two turns */
byte periods, faults;

/* What the daemon has in memory. */
byte readPut[2];                /* number of the newest frame that it has read */
byte readLeft[2];               /* periods for which that frame is live */
bool isUnsent[2];
bool needsSafe = true;
bool isFirst = true;            /* the first turn after a start */

/* The output. */
byte owner = NOTHING;           /* input of its newest frame, or SAFE */
byte number;                    /* of that frame */
byte putBy = NOTHING;           /* input whose live frame was put in this period */

/* Observers. */
byte lowerFor;                  /* periods since the lower put a frame that must be in the output */
byte noneFor;                   /* periods for which no input has been live */

proctype Program(byte i) {
	do
	:: atomic {
		!hasPut[i] && periods < PERIODS ->
		hasPut[i] = true;
		put[i]++;
		left[i] = LIFE;
		isWoken = true
	}
	:: atomic { periods == PERIODS -> break }
	od
}

inline ends(i) {
	if
	:: left[i] > 0 -> left[i]--; if :: left[i] == 0 -> isWoken = true :: else fi
	:: else
	fi;
#ifndef BROKEN_EXPIRY
	if :: readLeft[i] > 0 -> readLeft[i]-- :: else fi;
#endif
	hasPut[i] = false
}

/* The clock. The claims about time are checked at the end of a period. */
proctype Clock() {
	do
	:: atomic {
		periods < PERIODS && isIdle && (!isWoken || !isAlive) ->
		if
		:: isAlive && left[0] == 0 && left[1] > 0 -> lowerFor++
		:: else -> lowerFor = 0
		fi;
		if
		:: isAlive && left[0] == 0 && left[1] == 0 -> noneFor++
		:: else -> noneFor = 0
		fi;
		assert(!(lowerFor > 1 && hasPut[1] && (owner != 1 || number != put[1])));
		assert(!(noneFor > 1 && owner != SAFE));
		ends(0);
		ends(1);
#ifdef BROKEN_TIMER
		isWoken = false;
#endif
		putBy = NOTHING;
		periods++
	}
	:: atomic { periods == PERIODS -> break }
	od
}

inline reads(i) {
	atomic {
		if
		:: put[i] != readPut[i] ->
			readPut[i] = put[i];
			readLeft[i] = left[i];
			isUnsent[i] = left[i] > 0 && !isFirst
		:: else
		fi
	}
}

/* The daemon: each step may be its last one. A program may put between two steps. */
proctype Mux() {
	byte winner;
idle:
	isIdle = true;
	if
	:: atomic { isAlive && isWoken -> isWoken = false; isIdle = false }
	:: atomic { periods == PERIODS -> goto done }
	fi;
	reads(0);
#ifndef BROKEN_READ
	reads(1);
#endif
	atomic {
		isFirst = false;
		winner = NOTHING;
		if
		:: readLeft[0] > 0 -> winner = 0
		:: else -> if :: readLeft[1] > 0 -> winner = 1 :: else fi
		fi;
#ifdef BROKEN_SHADOW
		if :: isUnsent[1] && readLeft[1] > 0 -> winner = 1 :: else fi;
#endif
		if :: winner != 0 -> isUnsent[0] = false :: else fi;
		if :: winner != 1 -> isUnsent[1] = false :: else fi
	};
	atomic {
		if
		:: isAlive && winner != NOTHING && isUnsent[winner] ->
			/* A frame of the higher input that was put after the reads is not known here. */
			assert(left[winner] > 0);
			assert(winner == 0 || left[0] == 0 || put[0] != readPut[0]);
			assert(putBy == NOTHING || putBy == winner || putBy == 1 || left[0] == 0);
			putBy = winner;
			owner = winner;
			number = readPut[winner];
			isUnsent[winner] = false;
			needsSafe = true
		:: isAlive && winner == NOTHING && needsSafe ->
			owner = SAFE;
			needsSafe = false
		:: else
		fi
	};
	goto idle;
done:
	skip
}

proctype Fault() {
	do
	:: atomic { faults < FAULTS && isAlive -> isAlive = false; faults++ }
	:: atomic { !isAlive && isIdle ->
		readPut[0] = 0; readPut[1] = 0;
		readLeft[0] = 0; readLeft[1] = 0;
		isUnsent[0] = false; isUnsent[1] = false;
#ifdef BROKEN_FOUND
		readPut[0] = put[0]; readPut[1] = put[1];
#endif
		needsSafe = owner != SAFE;
		isFirst = true;
		lowerFor = 0; noneFor = 0;
		isAlive = true; isWoken = true }
	:: atomic { periods == PERIODS -> break }
	od
}

init {
	atomic {
		run Program(0);
		run Program(1);
		run Clock();
		run Mux();
		run Fault()
	}
}
