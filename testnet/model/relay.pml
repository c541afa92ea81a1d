/*
 * One channel, one mirror, and a hub between them: what the origin's daemon, the mirror's daemon
 * and the hub may do, in every order. `check` beside this file checks it. It goes on where
 * link.pml ends: frames do not travel in packets of a link, but lie at the hub, the newest alone,
 * until the reader pulls them; and the hub may be an adversary.
 *
 *	Robot      puts frames, and may make its channel anew
 *	Origin     the node's goroutine of the robot's host   control.go hubway/publishers.go, subscription.go
 *	Putter     copies, seals and puts                     hubway/publisher.go, load.go
 *	Hub        stores and serves, or lies
 *	Mirror     the node's goroutine of the other host     control.go requested_mirrors.go binding.go
 *	Pull       opens and puts into the mirror             hubway/consumer.go
 *	Fault      what goes wrong, Recovery what is mended
 *	Rest       looks at the mirror when nothing moves
 *
 * all but the hub in package bridge and hubway. Times are left out: whether a frame is past its budget is
 * open each time somebody asks, but what a mirror asks for, after a second and more, is past it by
 * then. Each cut of a connection, restart of a daemon or of the hub, each frame that the hub does
 * not store, and each change of the key is a fault; a run has any FAULTS of them. The control
 * session ends with the connections that carry it. A key is known by its number: a frame of
 * another key cannot be opened, and nobody else can seal one.
 *
 * What is claimed, and where:
 *
 *	never back to an earlier life, never back to an
 *	older frame, no frame twice, whatever the hub does  place
 *	the newest frame is there when nothing moves,
 *	if the hub is honest                                Rest
 *
 * With LIAR the hub serves, any LIES times, whatever was ever put, in any order, and it may drop
 * what it says that it has stored. With NEWEST late frames are put, as in link.pml.
 * BROKEN_... takes one part of the protocol away, to see the claim fail.
 *
 * Not in the model: other readers (but for the key that changes when one leaves), commands, rates,
 * pulls beyond two, and clocks that are not known yet.
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
#define SESSIONS 3              /* of control, one after the other */
#endif
#ifndef LIES
#define LIES 3
#endif
#define UNACKED 2               /* frames that the hub has not acknowledged */
#define PULLS 2                 /* frames on their way to the reader */
#define QUEUE 8                 /* control messages not read yet: enough for all runs */
#define EVER 12                 /* frames that were ever put: enough for all runs */

#define UNKNOWN 255             /* before the first catalog of a session */

mtype = { Catalog, Subscribe, Subscribed, Refused, Key, Newest, Update, Unsubscribe };

/* ---- the robot's channel ------------------------------------------------ */

byte epoch = 1, last[LIVES + 1];
byte faults = FAULTS;

/* ---- control ------------------------------------------------------------ */

byte session;
bool dead[SESSIONS + 1];
chan toMirror[SESSIONS + 1] = [QUEUE] of { mtype, byte, byte, byte };
chan toOrigin[SESSIONS + 1] = [QUEUE] of { mtype, byte, byte, byte };

#define SEND(q, l, m) if :: dead[l] -> skip :: else -> assert(nfull(q[l])); q[l]!m fi
#define discard(q) do :: nempty(q) -> q?_, _, _, _ :: empty(q) -> break od

/* ---- the hub ------------------------------------------------------------ */

typedef Sealed { byte key, counter, epoch, seq; bool owed }
chan up = [UNACKED] of { byte, byte, byte, byte, bool };
chan down = [PULLS] of { byte, byte, byte, byte, bool };
chan words = [UNACKED] of { bool }      /* whether a frame was stored */
Sealed at;                      /* what is stored; key 0: nothing */
bool seen;                      /* the reader has got it over this connection */
#ifdef LIAR
Sealed ever[EVER];
byte put, lies = LIES;
#endif

/* ---- the origin's daemon ------------------------------------------------ */

byte oLink, oEpoch, told = UNKNOWN;
byte keys;                      /* that were ever made: none comes twice */
bool xOn, again, asked;         /* a reader, and with it a putter; the newest is put once more; it was asked for */
byte xId, key, used, loaded, unacked;

/* ---- the mirror's daemon ------------------------------------------------ */

byte mLink, catalog = UNKNOWN, lastID;
byte inId, inEpoch;             /* id 0: nobody feeds the mirror */
byte myKey, opened, named;      /* 0: no key yet; counters up to opened are refused */
Sealed unkeyed, held;           /* key 0: none; a frame whose key, one whose name may be on its way */
bool owed;                      /* the mirror lacks the newest: it asks */

byte tagEpoch, tagSeq;          /* m.tag */
byte fileEpoch, fileSeq;        /* the tag in the file, which outlives the daemon */
byte gotEpoch, gotSeq;          /* what the file really holds */

#define fresh (last[epoch] == 0 || (gotEpoch == epoch && gotSeq == last[epoch]))

/* ---- Robot -------------------------------------------------------------- */

active proctype Robot()
{
	byte puts = PUTS;
end:	do
	:: atomic { puts > 0 -> last[epoch]++; puts-- }
	:: atomic { epoch < LIVES -> epoch++ }
	od
}

/* ---- Origin ------------------------------------------------------------- */

inline newKey()
{
	keys++; key = keys; used = 0
}

inline dropExport()             /* the putter ends with its last reader */
{
	xOn = false; xId = 0; key = 0; used = 0; loaded = 0; again = false; asked = false; unacked = 0;
	do :: up?_, _, _, _, _ :: words?_ :: empty(up) && empty(words) -> break od
}

inline originHears()
{
	if
	:: toOrigin[oLink]?Subscribe(id, e, n) ->
		if
		:: e != oEpoch -> SEND(toMirror, oLink, Refused(id, 0, 0))
		:: else ->
			dropExport();
			SEND(toMirror, oLink, Subscribed(id, e, last[e]));
			xOn = true; xId = id;
			loaded = (n < last[e] -> last[e] - 1 : last[e]);
			newKey();
			SEND(toMirror, oLink, Key(id, key, used))
		fi
	:: toOrigin[oLink]?Unsubscribe(id, _, _) ->
		if
		:: xOn && xId == id -> dropExport()
		:: else
		fi
	:: toOrigin[oLink]?Update(id, n, _) ->
		if
		:: xOn && xId == id && n < loaded -> again = true; asked = true   /* past its budget for sure */
		:: else
		fi
	fi;
	id = 0; e = 0; n = 0
}

inline dropOriginsLink()
{
	dropExport();
	discard(toOrigin[oLink]);
	oLink = 0; told = UNKNOWN
}

active proctype Origin()
{
	byte id, e, n;
end:	do
	:: atomic { oEpoch != epoch -> dropExport(); oEpoch = epoch }
	:: atomic { oLink && told != oEpoch && oEpoch -> told = oEpoch; SEND(toMirror, oLink, Catalog(told, 0, 0)) }
	:: atomic { oLink && nempty(toOrigin[oLink]) -> originHears() }
	:: atomic { oLink && dead[oLink] -> dropOriginsLink() }
	:: atomic { session > oLink && !dead[session] -> dropOriginsLink(); oLink = session }
	:: atomic { xOn && faults > 0 -> faults--; newKey();    /* another reader leaves */
		SEND(toMirror, oLink, Key(xId, key, used));
#ifndef BROKEN_REKEY
		again = true
#endif
	}
	od
}

/* ---- Putter ------------------------------------------------------------- */

#define puts_ (xOn && unacked < UNACKED && (last[oEpoch] > loaded || again))

active proctype Putter()
{
	bool ok, late;
end:	do
	:: atomic { puts_ ->
		if
		:: last[oEpoch] > loaded -> asked = false
		:: else
		fi;
		loaded = last[oEpoch]; again = false; used++; unacked++;
		if :: late = true :: late = asked fi;   /* past its budget by now? */
		if
		:: late -> SEND(toMirror, oLink, Newest(xId, loaded, 0))
		:: else
		fi;
		up!key, used, oEpoch, loaded, late;
#ifdef LIAR
		ever[put].key = key; ever[put].counter = used; ever[put].epoch = oEpoch; ever[put].seq = loaded; ever[put].owed = late;
		assert(put < EVER - 1); put++;
#endif
		late = false }
	:: atomic { words?ok -> unacked--;
		if
#ifndef BROKEN_AGAIN
		:: !ok && unacked == 0 -> again = true          /* it was the newest: words come in order */
#endif
		:: else
		fi;
		ok = false }
	od
}

/* ---- Hub ---------------------------------------------------------------- */

active proctype Hub()
{
	byte i;
end:	do
	:: atomic { nempty(up) -> up?at.key, at.counter, at.epoch, at.seq, at.owed; seen = false; words!true }
	:: atomic { nempty(up) && faults > 0 -> faults--; up?_, _, _, _, _; words!false }       /* full, or it said nothing */
	:: atomic { at.key && !seen && nfull(down) -> seen = true; down!at.key, at.counter, at.epoch, at.seq, at.owed }
#ifdef LIAR
	:: atomic { nempty(up) && lies > 0 -> lies--; up?_, _, _, _, _; words!true }
	:: atomic { put > 0 && lies > 0 && nfull(down) -> lies--;
		select(i : 0 .. put - 1);
		down!ever[i].key, ever[i].counter, ever[i].epoch, ever[i].seq, ever[i].owed; i = 0 }
#endif
	od
}

/* ---- Pull --------------------------------------------------------------- */

inline clear(f)
{
	f.key = 0; f.counter = 0; f.epoch = 0; f.seq = 0; f.owed = false
}

/* The file changes, and nobody who reads it may see an older frame, or one twice. */
inline place(whose, frame)
{
	assert(whose >= gotEpoch);                              /* no return to an earlier life */
	assert(whose != gotEpoch || frame >= gotSeq);           /* no return to an older frame */
	assert(whose != gotEpoch || frame != gotSeq);           /* no frame twice */
	gotEpoch = whose; gotSeq = frame
}

#ifndef BROKEN_KEY
#define otherKey (x.key != myKey)
#else
#define otherKey (myKey == 0)   /* as if no key were ever replaced */
#endif
#ifndef BROKEN_COUNTER
#define replayed (x.counter <= opened)
#else
#define replayed false
#endif
#ifndef BROKEN_EPOCH
#define stray (x.epoch != inEpoch)
#else
#define stray false
#endif
#ifndef BROKEN_ORDER
#define old (x.seq <= tagSeq)
#else
#define old (x.seq == tagSeq)
#endif

inline accept()
{
	if
	:: otherKey ->
#ifndef BROKEN_UNKEYED
		unkeyed.key = x.key; unkeyed.counter = x.counter; unkeyed.epoch = x.epoch; unkeyed.seq = x.seq; unkeyed.owed = x.owed
#else
		skip
#endif
	:: else ->
		if
		:: replayed || stray
		:: else -> opened = x.counter; clear(held); putFrame()
		fi
	fi
}

inline putFrame()
{
	if
	:: x.owed && x.seq > named ->
#ifndef BROKEN_HELD
		held.key = 1; held.epoch = x.epoch; held.seq = x.seq; held.owed = x.owed
#else
		skip
#endif
	:: else ->
#ifdef NEWEST
		late = false;
#else
		if :: late = !(x.owed && x.seq == named) :: late = false fi;    /* is it past its budget here? */
#endif
		if
		:: old
		:: !old && late -> owed = true
		:: else ->
			place(x.epoch, x.seq); tagSeq = x.seq; owed = false;
#ifndef BROKEN_TAG
			fileEpoch = x.epoch; fileSeq = x.seq
#endif
		fi;
		late = false
	fi
}

/* ---- Mirror ------------------------------------------------------------- */

inline endPull()                /* its subscription is at the hub no more, and what came for it goes nowhere */
{
	inId = 0; inEpoch = 0; myKey = 0; opened = 0; named = 0;
	clear(unkeyed); clear(held); seen = false;
	do :: down?_, _, _, _, _ :: empty(down) -> break od
}

inline bind()
{
	if
	:: inId -> SEND(toOrigin, mLink, Unsubscribe(inId, 0, 0)); endPull()
	:: else
	fi;
	owed = false;
	if
	:: tagEpoch != catalog -> tagEpoch = catalog; tagSeq = 0
	:: else
	fi;
	lastID++; inId = lastID; inEpoch = catalog;
	SEND(toOrigin, mLink, Subscribe(inId, inEpoch, tagSeq))
}

inline mirrorHears()
{
	if
	:: toMirror[mLink]?Catalog(catalog, _, _) ->
		if
		:: inId == 0 || inEpoch != catalog -> bind()
		:: else
		fi
	:: toMirror[mLink]?Refused(id, _, _) ->
		if
		:: id == inId -> endPull()      /* another catalog follows */
		:: else
		fi
	:: toMirror[mLink]?Subscribed(id, _, n) ->
		if
		:: id == inId -> named = n
		:: else
		fi
	:: toMirror[mLink]?Key(id, k, n) ->
		if
		:: id == inId ->
			myKey = k; opened = n;
			if
			:: unkeyed.key -> x.key = unkeyed.key; x.counter = unkeyed.counter; x.epoch = unkeyed.epoch; x.seq = unkeyed.seq; x.owed = unkeyed.owed;
				clear(unkeyed); accept()
			:: else
			fi
		:: else
		fi
	:: toMirror[mLink]?Newest(id, n, _) ->
		if
		:: id == inId ->
			named = (n > named -> n : named);
			if
			:: held.key -> x.epoch = held.epoch; x.seq = held.seq; x.owed = held.owed; clear(held); putFrame()
			:: else
			fi
		:: else
		fi
	fi;
	id = 0; k = 0; n = 0; clear(x)
}

inline dropMirrorsLink()
{
	endPull();
	discard(toMirror[mLink]);
	mLink = 0; catalog = UNKNOWN
}

#define settled (empty(up) && empty(down) && empty(words) && empty(toOrigin[mLink]) && empty(toMirror[mLink]) && !puts_ && oLink == mLink && (seen || at.key == 0) && told == oEpoch && oEpoch == epoch)

active proctype Mirror()
{
	byte id, k, n;
	Sealed x;
	bool late;
end:	do
	:: atomic { mLink && nempty(toMirror[mLink]) -> mirrorHears() }
	:: atomic { mLink && dead[mLink] -> dropMirrorsLink() }
	:: atomic { session > mLink && !dead[session] -> dropMirrorsLink(); mLink = session; lastID = 0 }
#ifndef BROKEN_DEBT
	:: atomic { mLink && !dead[mLink] && inId && owed && settled -> SEND(toOrigin, mLink, Update(inId, tagSeq, 0)) }
#endif
	:: atomic { nempty(down) && inId ->     /* Pull */
		down?x.key, x.counter, x.epoch, x.seq, x.owed; accept(); clear(x) }
	:: atomic { nempty(down) && !inId -> down?_, _, _, _, _ }
	od
}

/* ---- what goes wrong ---------------------------------------------------- */

#define mayEnd (faults > 0 && session && session < SESSIONS && !dead[session])

inline loseUp()                 /* the origin's connection: no word comes of what was on its way */
{
	do
	:: up?_, _, _, _, _
	:: words?_
	:: empty(up) && empty(words) -> break
	od;
	if
	:: unacked > 0 -> unacked = 0; again = true
	:: else
	fi
}

inline loseDown()               /* the reader's: the next one begins with what is stored */
{
	do :: down?_, _, _, _, _ :: empty(down) -> break od;
	seen = false
}

active proctype Fault()
{
end:	do
	:: atomic { mayEnd -> faults--; dead[session] = true;
		if
		:: skip                         /* control alone */
		:: loseUp()
		:: loseDown()
		:: loseUp(); loseDown(); clear(at)      /* the hub was restarted */
		:: dropOriginsLink(); oEpoch = 0        /* the origin's daemon was, or the mirror's */
		:: dropMirrorsLink(); lastID = 0; owed = false; tagEpoch = fileEpoch; tagSeq = fileSeq
		fi }
	od
}

active proctype Recovery()
{
end:	do
	:: atomic { session < SESSIONS && (session == 0 || dead[session]) -> session++ }
	od
}

#ifndef LIAR
active proctype Rest()
{
end:	timeout -> assert(fresh)
}
#endif
