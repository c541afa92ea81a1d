package hub

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"achbridge/bridge/hub"
	"achbridge/bridge/logline"
)

// keeper keeps memory free for the next frames. A nats-server whose memory is full refuses
// all frames, even one that would replace another. So before memory is full, keeper refuses new
// streams and drops the largest frames of the host that uses most memory.
type keeper struct {
	nats  *server.Server
	limit int64 // bytes
	log   *slog.Logger
	purge func(context.Context, kept) error

	began    time.Time
	logLimit logline.Limit
	dropped  atomic.Int64 // frames dropped for lack of memory
}

// kept describes a stream: its host and the size of its frames.
type kept struct {
	stream, host string
	bytes        int64
}

func newKeeper(s *server.Server, m *maker, limit int64, log *slog.Logger) *keeper {
	return &keeper{nats: s, limit: limit, log: log, purge: m.purge, began: time.Now(), logLimit: logline.Limit{Period: time.Minute}}
}

// full returns the usage, in bytes, above which look drops frames until the usage is at most room.
// From room on, no new stream is created.
func (k *keeper) full() int64 { return k.limit / 8 * 7 }
func (k *keeper) room() int64 { return k.limit / 4 * 3 }

// used returns the memory that frames use, in bytes.
func (k *keeper) used() int64 {
	z, err := k.nats.Jsz(nil)
	if err != nil {
		return 0 // the server is stopping
	}
	return int64(z.Memory)
}

// hasRoom reports whether there is memory for the frames of one more channel.
func (k *keeper) hasRoom() bool { return k.used() < k.room() }

// check drops frames if the memory usage is above full.
func (k *keeper) check(ctx context.Context) {
	used := k.used()
	if used <= k.full() {
		return
	}
	z, err := k.nats.Jsz(&server.JSzOptions{Accounts: true, Streams: true})
	if err != nil {
		return
	}
	var all []kept
	for _, detail := range z.AccountDetails {
		for _, s := range detail.Streams {
			host, err := hub.OwnerOf(s.Name)
			if err != nil {
				continue // not a stream of a host
			}
			all = append(all, kept{s.Name, host, int64(s.State.Bytes)})
		}
	}
	hosts := map[string]bool{}
	for _, s := range toDrop(all, used-k.room()) {
		if err := k.purge(ctx, s); err == nil {
			hosts[s.host] = true
			k.dropped.Add(1)
		}
	}
	if count, due := k.logLimit.Cause(time.Since(k.began)); due {
		k.log.Warn("memory is full, dropped the largest frames of the hosts that use most, start the hub with more memory, as in --memory 1GiB",
			"hosts", slices.Sorted(maps.Keys(hosts)), "max_memory", k.limit, "count", count)
	}
}

// toDrop returns the streams to empty so that at least excess bytes become free: always the
// largest stream of the host that uses most memory.
func toDrop(all []kept, excess int64) (drop []kept) {
	byHost, sums := map[string][]kept{}, map[string]int64{}
	for _, s := range all {
		byHost[s.host] = append(byHost[s.host], s)
		sums[s.host] += s.bytes
	}
	for _, list := range byHost {
		slices.SortFunc(list, func(a, b kept) int { return int(a.bytes - b.bytes) })
	}
	for excess > 0 {
		most := ""
		for host, sum := range sums {
			if sum > sums[most] || sum == sums[most] && sum > 0 && host < most {
				most = host
			}
		}
		list := byHost[most]
		if len(list) == 0 {
			return drop
		}
		largest := list[len(list)-1]
		byHost[most], sums[most] = list[:len(list)-1], sums[most]-largest.bytes
		excess -= largest.bytes
		drop = append(drop, largest)
	}
	return drop
}
