/*
 * One link, one channel, one mirror: what the origin's daemon, the mirror's
 * daemon and the network may do, in every order. `check` beside this file checks it.
 *
 *	Robot      puts frames, and may make its channel anew
 *	Origin     the node's goroutine of the robot's host   control.go local.go export.go
 *	Pump       its link's pump: newest first, resend      pump.go load.go turn.go
 *	Mirror     the node's goroutine of the other host     control.go wishes.go heal.go
 *	Receive    its links' goroutines of that name         receive.go arrival.go mirror.go
 *	Fault      what goes wrong, Recovery what is mended   link.go spare.go peer.go
 *	Rest       looks at the mirror when nothing moves
 *
 * all in package bridge. Times are left out: what a timer may do, it does at any
 * moment; where it would only repeat what is on its way already, a timer that is
 * too early counts as a fault. So does each loss, duplicate, cut, restart of either
 * daemon, lock taken by a local reader, and moment in which the channel cannot be
 * opened; a run has any FAULTS of them, wherever they hurt. Packets pass each other
 * freely. Whether a frame is past its budget is open each time somebody asks.
 *
 * What is claimed, and where:
 *
 *	no deadlock                                         every stop is at an "end" label
 *	never back to an earlier life of the channel,
 *	never back to an older frame, no frame twice        place
 *	the newest frame is there when nothing moves        Rest
 *	it comes, too, if something moves for ever          ltl arrives, with weak fairness
 *
 * Late frames: where the mirror is to be strict (late: drop), a frame that is past its
 * budget is not put unless it is owed; so it is as the model stands. With NEWEST every
 * frame is put that is newer than the mirror's, in time or not (late: newest).
 *
 * BROKEN_... takes one part of the protocol away, to see the claim fail.
 * KILLED_IN_PUT lets the mirror's daemon die between the note in the file of a
 * frame that comes next and its put: the note then says that all before it is there.
 *
 * A frame is one packet here. Not in the model: mode every, commands (never owed),
 * max_rate, the ledger, a file replaced by a larger one, who dials, and a channel
 * that is initialised again in its old file while the origin's daemon is down.
 *
 * Ach itself was verified with Spin by its authors: N. Dantam and M. Stilman,
 * "Robust and Efficient Communication for Real-Time Multi-Process Robot Software",
 * 2012. This is for what carries it between hosts.
 */

#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef PUTS
#define PUTS 2                  /* frames, over all lives of the channel */
#endif
#ifndef LIVES
#define LIVES 2                 /* of the channel */
#endif
#ifndef SESSIONS
#define SESSIONS 2              /* of the link, one after the other */
#endif
#ifndef PACKETS
#define PACKETS 2               /* with frames, on their way at once */
#endif
#ifndef BROKEN_QUEUE
#define QUEUE 10                /* control messages not read yet: enough for all runs */
#else
#define QUEUE 1
#endif
#define IDS 6                   /* subscription numbers before the first comes again */
#define DRAIN 1                 /* messages that a node takes before it reconciles */

#define UNKNOWN 255             /* before the first catalog of a link */
#define NOTHING 0               /* a channel that is not offered, no frame, no link, no subscription */

mtype = { Catalog, Subscribe, Subscribed, Refused, Update, Unsubscribe };
#define ABSENT 0                /* why Refused */
#define EPOCH 1

/* ---- the robot's channel; an epoch is one life of it -------------------- */

byte epoch = 1, last[LIVES + 1];
bool there = true;
bool shut;                    /* it cannot be opened for a moment: chmod, half written */
byte faults = FAULTS;

/* ---- the path: sessions, control streams, packets ----------------------- */

byte session;                   /* the newest that was dialled */
bool dead[SESSIONS + 1];        /* nothing sent on it arrives any more */
chan toMirror[SESSIONS + 1] = [QUEUE] of { mtype, byte, byte, byte };
chan toOrigin[SESSIONS + 1] = [QUEUE] of { mtype, byte, byte, byte };

#define FREE 0
#define AWAY 1                  /* on its way */
#define HELD 2                  /* taken by Receive, not in the mirror yet */
#define THERE 3                 /* arrived, and no report of that has */
#define LOST 4
typedef Packet {
	byte where, link, sub, epoch, seq;
	bool owed;
	bool open                   /* its sender waits for word of it: fresh.Flight */
	bool known                  /* its sender still has its link */
}
Packet packet[PACKETS];

/* ---- the origin's daemon ------------------------------------------------ */

byte oLink, oChannel, told;     /* link; epoch of the channel it has open; and what its catalog told */
bool oChanged;
byte oDrained;

typedef Export {                /* export.go; "on" is its place in link.exports */
	bool on;
	byte id, epoch, loaded, arrived, acks, first;
	bool todo, left, owed
}
Export x;

/* ---- the mirror's daemon ------------------------------------------------ */

byte mLink, catalog = UNKNOWN;
bool mChanged;
byte mDrained;
byte lastID;

typedef Inbound {               /* receive.go; id 0: nobody feeds the mirror */
	byte id, epoch, have
}
Inbound in;

typedef Held {                  /* a frame that Receive has taken and not put; slot PACKETS: its packet comes again */
	bool on, owed, stale;           /* stale: of a subscription that is over */
	byte epoch, seq, slot
}
Held hand[2];                   /* of two links */

byte tagEpoch, tagSeq;          /* m.tag */
byte recent, lacking, pending;  /* numbers of frames; recent is a set */
bool owed, waiting, locked;

byte fileEpoch, fileSeq;        /* the tag in the file, which outlives the daemon */
byte gotEpoch, gotSeq;          /* what the file really holds: what a reader sees */

#define fresh (there && (last[epoch] == 0 || (gotEpoch == epoch && gotSeq == last[epoch])))

#define BIT(n) (1 << (n))

/* A node never waits for the network (stream.go): the queue is long enough. */
#ifdef BROKEN_QUEUE
#define SEND(q, l, m) if :: dead[l] -> skip :: else -> q[l]!m fi
#else
#define SEND(q, l, m) if :: dead[l] -> skip :: else -> assert(nfull(q[l])); q[l]!m fi
#endif

/* What is not read when a link is dropped. */
#define discard(q) do :: nempty(q) -> q?_, _, _, _ :: empty(q) -> break od

/* ---- Robot -------------------------------------------------------------- */

active proctype Robot()
{
	byte puts = PUTS;
end:	do
	:: atomic { there && puts > 0 -> last[epoch]++; puts-- }
	:: atomic { there && epoch < LIVES -> there = false }
	:: atomic { !there -> there = true; epoch++ }
	od
}

/* ---- Origin ------------------------------------------------------------- */

inline forgetPacket(i)
{
	packet[i].where = FREE; packet[i].link = 0; packet[i].sub = 0; packet[i].epoch = 0; packet[i].seq = 0;
	packet[i].owed = false; packet[i].open = false; packet[i].known = false
}

inline dropExport()             /* link.go */
{
	x.on = false; x.id = 0; x.epoch = 0; x.loaded = 0; x.arrived = 0; x.acks = 0; x.first = 0;
	x.todo = false; x.left = false; x.owed = false
}

inline dropOriginsLink()        /* the same: no word of its packets is heard any more */
{
	dropExport();
	for (k : 0 .. PACKETS - 1) {
		if
		:: packet[k].where == THERE || packet[k].where == LOST -> forgetPacket(k)
		:: else -> packet[k].known = false; packet[k].open = false
		fi
	}
	discard(toOrigin[oLink]);
	oLink = 0; told = UNKNOWN
}

#define openable ((there && !shut) -> epoch : NOTHING)
#define newest last[x.epoch]    /* of the ring that the export has open, also after it was unlinked */

inline originHears()            /* control.go */
{
	if
	:: toOrigin[oLink]?Subscribe(id, e, n) ->
		if
		:: told == NOTHING || told == UNKNOWN || oChannel == NOTHING ->
			SEND(toMirror, oLink, Refused(id, ABSENT, 0))
		:: else ->
			if
			:: e != oChannel -> SEND(toMirror, oLink, Refused(id, EPOCH, 0))
			:: else ->
				SEND(toMirror, oLink, Subscribed(id, e, last[e]));
				if
				:: n > last[e]          /* a life that ended unseen */
				:: else ->              /* newExport, book.begin */
					dropExport();
					x.on = true; x.id = id; x.epoch = e; x.arrived = n;
					x.loaded = (n < newest -> newest - 1 : n);
					x.first = (n < newest -> newest - 1 : newest)
				fi
			fi
		fi
	:: toOrigin[oLink]?Unsubscribe(id, _, _) ->
		if
		:: x.on && x.id == id -> dropExport()
		:: else
		fi
	:: toOrigin[oLink]?Update(id, n, _) ->
		if
		:: x.on && x.id == id && !(n >= x.loaded || newest > x.loaded || x.todo) -> owe(n)
		:: else
		fi
	fi
}

inline owe(have)                /* load.go */
{
	if
	:: !x.left ->
		assert(x.first == newest);      /* book.reopen */
		x.first--; x.loaded = newest - 1; x.arrived = have
	:: else ->
#ifndef BROKEN_OWED
		x.owed = true;
#endif
		x.todo = true;
		x.arrived = (have < x.arrived -> have : x.arrived)
	fi
}

active proctype Origin()
{
	byte k, id, e, n;
end:	do
	:: atomic { oChannel != openable ->     /* localChanged */
		dropExport();
		if              /* nobody looks there any more */
		:: oChannel < epoch -> last[oChannel] = 0
		:: else
		fi;
		oChannel = openable; oChanged = true;
#ifndef BROKEN_WORD
		if              /* or a subscription that has ended is not made again, when the same is offered again */
		:: oLink && told != UNKNOWN && told != NOTHING -> told = NOTHING; SEND(toMirror, oLink, Catalog(NOTHING, 0, 0))
		:: else
		fi
#endif
	}
	:: atomic { oLink && nempty(toOrigin[oLink]) && (!oChanged || oDrained < DRAIN) ->
		oDrained = (oChanged -> oDrained + 1 : 0); originHears(); id = 0; e = 0; n = 0 }
	:: atomic { oChanged -> oChanged = false; oDrained = 0;  /* reconcile, sendCatalog */
		if
		:: oLink && told != oChannel -> told = oChannel; SEND(toMirror, oLink, Catalog(oChannel, 0, 0))
		:: else
		fi }
	:: atomic { oLink && dead[oLink] -> dropOriginsLink() }
	:: atomic { session > oLink && !dead[session] -> dropOriginsLink(); oLink = session; oChanged = true }
	od
}

/* ---- Pump --------------------------------------------------------------- */

inline load()                   /* load.go: the newest of the ring, or the last once more */
{
	if
	:: newest > x.loaded ->
		x.loaded = newest; x.left = false; x.owed = false; x.todo = true
	:: else
	fi;
	if :: x.owed = true :: skip fi  /* past its budget by now? */
}

inline send(i)
{
	packet[i].where = (dead[oLink] -> LOST : AWAY); packet[i].link = oLink;
	packet[i].sub = x.id; packet[i].epoch = x.epoch; packet[i].seq = x.loaded;
	packet[i].owed = x.owed; packet[i].open = true; packet[i].known = true;
	x.todo = false; x.left = true
}

inline missing(i)               /* load.go */
{
	if
#ifndef BROKEN_RESEND
	:: x.on && x.id == packet[i].sub && packet[i].seq == x.loaded && x.arrived < packet[i].seq -> x.todo = true
#endif
	:: else
	fi
}

inline delivered(i)             /* load.go */
{
	if
	:: x.on && x.id == packet[i].sub ->
		x.arrived = (packet[i].seq > x.arrived -> packet[i].seq : x.arrived);
		if
		:: !(x.acks & BIT(packet[i].seq)) ->
			x.acks = x.acks | BIT(packet[i].seq);
			if
			:: packet[i].seq == x.loaded -> x.todo = false
			:: else
			fi
		:: else
		fi
	:: else
	fi
}

#define sends (oLink && x.on && (newest > x.loaded || x.todo))
#define lost(i) atomic { packet[i].where == LOST -> if :: packet[i].open -> missing(i) :: else fi; forgetPacket(i) }
#define reported(i) atomic { packet[i].where == THERE -> delivered(i); forgetPacket(i) }
#define hasty(i) atomic { faults > 0 && packet[i].open -> faults--; packet[i].open = false; missing(i) }

active proctype Pump()
{
end:	do
	:: atomic { sends && packet[0].where == FREE -> load(); send(0) }
	:: atomic { sends && packet[0].where != FREE && packet[1].where == FREE -> load(); send(1) }
	:: reported(0)          /* if a report is lost, the reminder is the next */
	:: reported(1)
	:: lost(0)              /* as a report or a timer tells */
	:: lost(1)
	:: hasty(0)             /* a timer that did not wait long enough */
	:: hasty(1)
	od
}

/* ---- Mirror ------------------------------------------------------------- */

inline unsubscribe()            /* wishes.go */
{
	SEND(toOrigin, mLink, Unsubscribe(in.id, 0, 0));
	in.id = 0; in.epoch = 0; in.have = 0
}

inline forget(e)                /* mirror.go */
{
	tagEpoch = e; tagSeq = 0; pending = 0
}

inline expect(e)                /* mirror.go */
{
	pending = 0; recent = 0; lacking = 0; owed = false;
#ifndef BROKEN_ROUND
	hand[0].stale = hand[0].on; hand[1].stale = hand[1].on;
#endif
	if
	:: tagEpoch != e -> forget(e)
	:: else
	fi
}

inline bind()                   /* wishes.go: reconcile makes what runs agree with what is wanted */
{
	if
	:: mLink == 0 || catalog == UNKNOWN || (catalog != NOTHING && in.id && in.epoch == catalog)
	:: else ->
		if
		:: in.id -> unsubscribe()
		:: else
		fi;
		if
		:: catalog != NOTHING ->
			expect(catalog);
			lastID = (lastID % IDS) + 1;
			in.id = lastID; in.epoch = catalog; in.have = tagSeq;
			SEND(toOrigin, mLink, Subscribe(in.id, in.epoch, in.have))
		:: else
		fi
	fi
}

inline mirrorHears()            /* control.go */
{
	if
	:: toMirror[mLink]?Catalog(catalog, _, _) ->
		mChanged = true;
#ifndef BROKEN_WORD
		if              /* at once: the next message may offer the same again */
		:: catalog == NOTHING && in.id -> unsubscribe()
		:: else
		fi
#endif
	:: toMirror[mLink]?Subscribed(id, e, n) ->
		if
		:: id == in.id && tagEpoch == e && in.have > n ->       /* begin: it remembers a life that ended unseen */
			forget(e); unsubscribe(); mChanged = true
		:: else
		fi
	:: toMirror[mLink]?Refused(id, e, _) ->
		if
		:: id == in.id -> unsubscribe(); mChanged = (mChanged || e == EPOCH)
		:: else
		fi
	fi;
	id = 0; e = 0; n = 0
}

inline dropMirrorsLink()        /* link.go */
{
	in.id = 0; in.epoch = 0; in.have = 0;
	discard(toMirror[mLink]);
	mLink = 0; catalog = UNKNOWN
}

#define asks (mLink && !dead[mLink] && in.id && owed && !pending)
/* The timer of mirrorLook, a second and more: what was asked for has come by then. */
#define quiet (packet[0].where == FREE && packet[1].where == FREE && empty(toOrigin[mLink]) && empty(toMirror[mLink]) && !sends && oLink == mLink)

active proctype Mirror()
{
	byte id, e, n;
end:	do
	:: atomic { mLink && nempty(toMirror[mLink]) && (!mChanged || mDrained < DRAIN) ->
		mDrained = (mChanged -> mDrained + 1 : 0); mirrorHears() }
	:: atomic { mChanged -> mChanged = false; mDrained = 0; bind() }
	:: atomic { mLink && dead[mLink] -> dropMirrorsLink() }
	:: atomic { session > mLink && !dead[session] -> dropMirrorsLink(); mLink = session; lastID = 0 }
#ifndef BROKEN_DEBT
	:: atomic { asks && quiet -> SEND(toOrigin, mLink, Update(in.id, tagSeq, 0)) } /* mirrorLook */
	:: atomic { asks && faults > 0 -> faults--; SEND(toOrigin, mLink, Update(in.id, tagSeq, 0)) }
#endif
	od
}

/* ---- Receive ------------------------------------------------------------ */

inline lose(i)
{
	if
	:: packet[i].known && packet[i].open -> packet[i].where = LOST
	:: else -> forgetPacket(i)
	fi
}

inline arrive(i)
{
	if
	:: packet[i].known -> packet[i].where = THERE
	:: else -> forgetPacket(i)
	fi
}

inline restartMirror()          /* the file stays */
{
	dropMirrorsLink();
	mChanged = false; mDrained = 0; lastID = 0;
	tagEpoch = fileEpoch; tagSeq = fileSeq;
	recent = 0; lacking = 0; pending = 0; owed = false; waiting = false;
	for (k : 0 .. 1) {
		if
		:: hand[k].on && hand[k].slot < PACKETS -> lose(hand[k].slot)
		:: else
		fi;
		hand[k].on = false; hand[k].owed = false; hand[k].stale = false; hand[k].epoch = 0; hand[k].seq = 0; hand[k].slot = 0
	}
	dead[session] = true
}

/* A fault that ends a session: there is one more to come. */
#define mayEnd (faults > 0 && session && session < SESSIONS && !dead[session])

/* The file changes, and nobody who reads it may see an older frame, or one twice. */
inline place(whose, frame)
{
	assert(whose >= gotEpoch);                              /* no return to an earlier life */
#ifndef LIVES_ONLY
	assert(whose != gotEpoch || frame >= gotSeq);           /* no return to an older frame */
	assert(whose != gotEpoch || frame != gotSeq);           /* no frame twice */
#endif
	gotEpoch = whose; gotSeq = frame
}

inline mark(frame)              /* mirrorfile.go */
{
#ifndef BROKEN_TAG
	fileEpoch = tagEpoch; fileSeq = frame
#else
	skip
#endif
}

inline write(frame)             /* mirror.go, into a file whose lock is free */
{
	if
#ifdef KILLED_IN_PUT
	:: mayEnd -> faults--; mark(frame - 1); restartMirror()
#endif
	:: place(whose, frame); tagSeq = frame; owed = frame < lacking;
		if
		:: mark(frame)
#ifdef BROKEN_MARK
		:: mayEnd -> faults--; restartMirror()  /* as if the mark came after the put */
#endif
		fi
	fi
}

#ifndef BROKEN_EPOCH
#define ours(i) (in.id == packet[i].sub && in.epoch == packet[i].epoch)
#define stray (hand[h].epoch != tagEpoch)
#else
#define ours(i) (in.id != 0)
#define stray false
#endif
#ifndef BROKEN_ORDER
#define old (hand[h].seq <= tagSeq || hand[h].seq <= pending)
#else
#define old (hand[h].seq == tagSeq || hand[h].seq == pending)
#endif

/* Until Receive puts it, anything may happen to the subscription. */
inline take(i, h, twice)        /* receive.go */
{
	if
	:: packet[i].link != mLink -> lose(i)
	:: packet[i].link == mLink && !ours(i) -> arrive(i)
	:: else ->
		hand[h].on = true; hand[h].owed = packet[i].owed;
		hand[h].epoch = packet[i].epoch; hand[h].seq = packet[i].seq;
		if
		:: twice -> hand[h].slot = PACKETS
		:: else -> hand[h].slot = i; packet[i].where = HELD
		fi
	fi
}

#define first (!(recent & BIT(hand[h].seq)))
#define again (!first && hand[h].seq == lacking)

inline put(h)                   /* arrival.go */
{
	whose = hand[h].epoch;
	if
	:: hand[h].stale
	:: else -> judge(h)
	fi;
	if
	:: hand[h].on && hand[h].slot < PACKETS -> arrive(hand[h].slot)
	:: else
	fi;
	hand[h].on = false; hand[h].owed = false; hand[h].stale = false;
	hand[h].epoch = 0; hand[h].seq = 0; hand[h].slot = 0;
	drop = false; seen = false; whose = 0; k = 0
}

inline judge(h)
{
#ifdef NEWEST
	drop = false;
#else
	if :: drop = !hand[h].owed :: drop = false fi;  /* is it past its budget here? */
#endif
	seen = !first && (!again || stray || old || drop);
	recent = recent | BIT(hand[h].seq);
	if
	:: seen || stray || old
	:: !(seen || stray || old) && drop ->
		if
		:: hand[h].seq >= lacking -> lacking = hand[h].seq; owed = true
		:: else
		fi
	:: else ->
		if
		:: hand[h].seq >= lacking -> lacking = 0
		:: else
		fi;
		if
		:: locked || waiting -> pending = hand[h].seq; waiting = true
		:: else -> write(hand[h].seq)
		fi
	fi
}

#define comes(i) (packet[i].where == AWAY && !hand[packet[i].link % 2].on)

active proctype Receive()
{
	bool drop, seen;
	byte whose, k;
end:	do
	:: atomic { comes(0) -> take(0, packet[0].link % 2, false) }
	:: atomic { comes(1) -> take(1, packet[1].link % 2, false) }
	:: atomic { faults > 0 && comes(0) -> faults--; take(0, packet[0].link % 2, true) }
	:: atomic { faults > 0 && comes(1) -> faults--; take(1, packet[1].link % 2, true) }
	:: atomic { faults > 0 && packet[0].where == AWAY -> faults--; lose(0) }
	:: atomic { faults > 0 && packet[1].where == AWAY -> faults--; lose(1) }
	:: atomic { hand[0].on -> put(0) }
	:: atomic { hand[1].on -> put(1) }
	:: atomic { waiting && !locked ->       /* putPending */
		waiting = false;
		if
		:: pending -> whose = tagEpoch; write(pending); pending = 0; whose = 0; k = 0
		:: else
		fi }
	od
}

/* ---- Path --------------------------------------------------------------- */

inline restartOrigin()
{
	dropOriginsLink();
	oChannel = NOTHING; oChanged = false; oDrained = 0;
	dead[session] = true
}

active proctype Fault()
{
	byte k;
end:	do
	:: atomic { mayEnd -> faults--;
		if
		:: dead[session] = true
		:: restartOrigin()
		:: restartMirror()
		fi; k = 0 }
	:: atomic { faults > 0 && !shut -> faults--; shut = true }
	:: atomic { faults > 0 && !locked -> faults--; locked = true }
	od
}

active proctype Recovery()
{
end:	do
	:: atomic { session < SESSIONS && (session == 0 || dead[session]) -> session++ }
	:: shut -> shut = false
	:: locked -> locked = false
	od
}

#ifdef LIVES_ONLY
#elif !defined(LIVENESS)
active proctype Rest()
{
end:	timeout -> assert(fresh)
}
#else
ltl arrives { <>[] fresh }
#endif
