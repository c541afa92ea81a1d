/*
 * One channel with an operator lock, two operators, and a copy of the first one's disk: what the
 * robot's daemon, its links and the operators may do, in every order. `check` beside this file
 * checks it.
 *
 *	Robot      the node's goroutine: who holds the lock        bridge/operators.go operator/table.go
 *	Receive    a link's goroutine: frames into the mirror      bridge/mirror/mirror.go
 *	Operator   takes, releases, offers and puts                bridge/push.go
 *	Fault      the robot's daemon is killed, the robot boots, a holder is silent for the grace,
 *	           the state cannot be written
 *
 * Times are left out: a lock may end at any moment, as a fault. Each fault counts; a run has any
 * FAULTS of them. The steps of a change (revoke, write, safe frame, answer) are one function of
 * the node's goroutine, so that it handles no message between them, but Receive goes on, and the
 * daemon may be killed. Receive looks up the subscription of a frame first and puts it later.
 *
 * What is claimed, and where:
 *
 *	never a frame of one who does not hold the lock,
 *	none whose generation has ended                     place
 *	a safe frame between two operators                  place
 *	never two holders: a lock that was told outlives
 *	the daemon, and who has the right holds the lock    restart, grant
 *	no generation twice, but for a boot without state   commit
 *	who asks for the lock of a dead holder gets it      ltl taken, with weak fairness
 *
 * BROKEN_... takes one part of the protocol away, to see the claim fail.
 */

#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef TAKES
#define TAKES 3                 /* requests for the lock, of all operators */
#endif
#ifndef PUTS
#define PUTS 3                  /* frames of all operators */
#endif
#define QUEUE 6                 /* control messages not read yet: enough for all runs */
#define GENS 8                  /* generations: enough for all runs */
#define OPERATORS 3             /* 3 is a copy of 1: the same node, another boot */
#define NOBODY 0
#define SAFE 9

mtype = { Take, Force, Release, Give, Offer, Holder };

#define SEND(q, m) assert(nfull(q)); q!m
#define discard(q) do :: nempty(q) -> q?_, _ :: empty(q) -> break od

chan toRobot[OPERATORS + 1] = [QUEUE] of { mtype, byte };
chan toOperator[OPERATORS + 1] = [QUEUE] of { mtype, byte };    /* Holder: the receiver's generation, 0 if it holds nothing */
chan air = [2] of { byte, byte };       /* who, generation of the subscription */

byte faults = FAULTS, takes = TAKES, puts = PUTS;

/* ---- the robot's daemon, its disk and its mirror ------------------------- */

byte holder, gen;               /* the table */
byte diskHolder, diskGen;       /* what is stored */
byte nextHolder, nextGen, asker;
byte rightWho, rightGen;        /* whose frames may be put */
byte sub[OPERATORS + 1];        /* generation under which the robot reads an operator's channel; 0: it does not */
bool killed, booted;            /* what the robot's daemon has not noticed yet */
bool dead1;                     /* operator 1 never comes again */
#ifdef BROKEN_GRACE
#define over false
#else
#define over (dead1 && holder == 1)     /* the timer of the grace does not wait for messages */
#endif

/* ---- what is true, for the claims ----------------------------------------- */

byte truth, truthGen;           /* who holds the lock by what was stored, or told */
bool ended[GENS];
byte lastPut;                   /* whose frame is the newest in the channel */

#ifdef BROKEN_BOOT
#define machine(i) (i == 3 -> 1 : i)
#else
#define machine(i) (i)
#endif

inline revoke()
{
	rightWho = NOBODY; rightGen = 0
}

/* The change is decided. */
inline commit()
{
	assert(nextGen < GENS && (nextHolder == NOBODY || !ended[nextGen]));
	if
	:: truthGen != 0 -> ended[truthGen] = true
	:: else
	fi;
	truth = nextHolder; truthGen = (nextHolder == NOBODY -> 0 : nextGen);
	holder = nextHolder;
	if
	:: nextHolder != NOBODY -> gen = nextGen
	:: else
	fi
}

inline store()
{
	diskHolder = nextHolder;
	if
	:: nextHolder != NOBODY -> diskGen = nextGen
	:: else
	fi
}

inline safeFrame()
{
#ifndef BROKEN_SAFE
	if
	:: lastPut != 0 -> lastPut = SAFE
	:: else
	fi;
#endif
	sub[1] = 0; sub[2] = 0; sub[3] = 0
}

inline tell(who)
{
	if
	:: holder != NOBODY && machine(who) == holder -> SEND(toOperator[who], Holder(gen))
	:: else -> SEND(toOperator[who], Holder(0))
	fi
}

/* ---- Robot ---------------------------------------------------------------- */

active proctype Robot()
{
	byte who, g;
	bool changes;
end:	do
	:: atomic {
		!killed && !over && (nempty(toRobot[1]) || nempty(toRobot[2]) || nempty(toRobot[3])) ->
		if
		:: nempty(toRobot[1]) -> who = 1
		:: nempty(toRobot[2]) -> who = 2
		:: nempty(toRobot[3]) -> who = 3
		fi;
		asker = who; changes = false;
		if
		:: toRobot[who]?Take(g) ->
			if
			:: holder == NOBODY -> changes = true; nextHolder = machine(who); nextGen = gen + 1
			:: else
			fi
		:: toRobot[who]?Force(g) ->
			if
			:: holder != machine(who) -> changes = true; nextHolder = machine(who); nextGen = gen + 1
			:: else
			fi
		:: toRobot[who]?Release(g) ->
			if
			:: holder == machine(who) -> changes = true; nextHolder = NOBODY; nextGen = gen
			:: else
			fi
		:: toRobot[who]?Give(g) ->
			if
			:: holder == machine(who) -> changes = true; nextHolder = 3 - holder; nextGen = gen + 1
			:: else
			fi
		:: toRobot[who]?Offer(g) ->
			if
			:: holder != NOBODY && holder == machine(who) && g == gen ->
				if
#ifndef BROKEN_SAFE
				:: sub[who] != gen && lastPut != 0 -> lastPut = SAFE    /* a mirror made anew, as after a restart */
#endif
				:: else
				fi;
				rightWho = who; rightGen = gen; sub[who] = gen;
#ifndef BROKEN_BOOT
				assert(rightWho == truth && rightGen == truthGen)
#endif
			:: else
			fi
		fi;
		if
		:: !changes -> tell(who); g = 0; who = 0; goto end
		:: else -> g = 0; who = 0
		fi
	   }
change:
#ifndef BROKEN_REVOKE
	   atomic { if :: killed -> goto dead :: else fi; revoke() }
#endif
#ifdef BROKEN_WRITE
	   atomic { if :: killed -> goto dead :: else fi; commit(); tell(asker) }
	   atomic { if :: killed -> goto dead :: else fi; store() }
#else
	   if
	   :: killed -> goto dead
	   :: atomic { !killed -> commit(); store() }
	   :: atomic { !killed && faults > 0 && nextHolder != NOBODY -> faults--;       /* it cannot be written */
		if
		:: holder != NOBODY && sub[holder] == gen -> rightWho = holder; rightGen = gen
		:: else
		fi;
		tell(asker); asker = 0; goto end }
	   fi;
#endif
	   atomic { if :: killed -> goto dead :: else fi; safeFrame(); revoke() }
	   atomic {
		if :: killed -> goto dead :: else fi;
#ifndef BROKEN_WRITE
		if
		:: asker -> tell(asker)
		:: else
		fi;
#endif
		if
		:: holder == 1 && asker != 1 -> tell(1)
		:: holder == 2 && asker != 2 -> tell(2)
		:: else
		fi;
		asker = 0 }
	:: atomic { !killed && holder != NOBODY && (faults > 0 || over) ->  /* the grace or the end is over */
		if
		:: over
		:: else -> faults--
		fi;
		asker = 0; nextHolder = NOBODY; nextGen = gen; goto change }
	:: killed ->
dead:	   atomic {
		killed = false; revoke(); who = 0; g = 0; changes = false; asker = 0;
		sub[1] = 0; sub[2] = 0; sub[3] = 0;
		discard(toRobot[1]); discard(toRobot[2]); discard(toRobot[3]);
		holder = diskHolder; gen = diskGen;
		if
		:: booted -> holder = NOBODY; diskHolder = NOBODY; booted = false;  /* the state names the boot before */
			if
			:: truthGen != 0 -> ended[truthGen] = true
			:: else
			fi;
			truth = NOBODY; truthGen = 0
		:: else -> assert(holder == truth)      /* what was told is still so */
		fi }
	od
}

active proctype Fault()
{
end:	do
	:: atomic { faults > 0 && !killed -> faults--; killed = true }
	:: atomic { faults > 0 && !killed -> faults--; killed = true; booted = true }
	od
}

/* ---- Receive -------------------------------------------------------------- */

inline place()
{
	assert(whose == truth && generation == truthGen && !ended[generation]);
	assert(lastPut == 0 || lastPut == SAFE || lastPut == whose);
	lastPut = whose
}

active proctype Receive()
{
	byte whose, generation;
end:	do
	:: atomic { air?whose, generation ->
		if
		:: sub[whose] == generation             /* the subscription is found */
		:: else -> whose = 0; generation = 0; goto end
		fi }
	   atomic {                                     /* under the mirror's mutex */
		if
#ifdef BROKEN_GATE
		:: true
#else
#ifdef BROKEN_GENERATION
		:: rightWho == whose
#else
		:: rightWho == whose && rightGen == generation
#endif
#endif
			-> place()
		:: else
		fi;
		whose = 0; generation = 0 }
	od
}

/* ---- Operator ------------------------------------------------------------- */

proctype Operator(byte me)
{
	byte g, mine;           /* generation that the robot told last; 0: it holds nothing */
end:	do
	:: atomic { takes > 0 && !(me == 1 && dead1) && len(toRobot[me]) < 2 -> takes--;
		if
		:: SEND(toRobot[me], Take(0))
		:: SEND(toRobot[me], Force(0))
		:: mine -> SEND(toRobot[me], Release(0))
		:: mine && me != 3 -> SEND(toRobot[me], Give(0))
		:: SEND(toRobot[me], Offer(mine))       /* a new link, or a restart of the operator's daemon */
		fi }
	:: atomic { toOperator[me]?Holder(g) ->
		if
		:: g && g != mine -> mine = g; SEND(toRobot[me], Offer(g))
		:: else -> mine = g
		fi;
		g = 0 }
	:: atomic { sub[me] && puts > 0 && nfull(air) -> puts--; air!me, sub[me] }
	od
}

#ifdef LIVENESS
/* Operator 1 took the lock and dies; operator 2 asks again and again, without force. */
active proctype Asker()
{
	do
	:: atomic { empty(toRobot[2]) && empty(toOperator[2]) && !killed -> SEND(toRobot[2], Take(0)) }
	:: toOperator[2]?Holder(_)
	od
}

active proctype Dies()
{
	atomic { holder == NOBODY && !killed -> nextHolder = 1; nextGen = gen + 1; commit(); store() }
	dead1 = true
}

ltl taken { [] (dead1 -> <> (holder == 2)) }
#else
init
{
	atomic {
		run Operator(1); run Operator(2);
#ifdef COPY
		run Operator(3)
#endif
	}
}
#endif
