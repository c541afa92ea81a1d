package bridge

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"achbridge/testnet/need"
)

// results has the stats of a scenario for all seeds.
type results struct {
	s     scenario
	keys  []key // in the order of the table
	stats map[key][]stat
}

// key identifies one line of the table.
type key struct{ class, window string }

// measure runs the scenario with as many seeds as the kind of run allows.
func (s scenario) measure(t *testing.T) *results {
	r := &results{s: s, stats: map[key][]stat{}}
	last := s.seeds()
	measured(t)
	if last == 0 {
		t.Skip("long: set ACHBRIDGE_LONG=1")
	}
	for seed := uint64(1); seed <= last; seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			readers, b := s.run(t, seed)
			alone := s.measureAlone(t, seed)
			for _, w := range s.allWindows() {
				r.add(readers, b, w, alone)
			}
		})
	}
	return r
}

// seeds returns the number of seeds. The long run uses all. If the test is named, QUIC uses all
// and SCTP one. The daily run uses one for some scenarios, over QUIC, and over SCTP for scenarios
// about it.
func (s scenario) seeds() uint64 {
	asked := strings.Contains(flag.Lookup("test.run").Value.String(), "TestFreshness")
	switch {
	case need.IsLong(), asked && s.over == "quic":
		return allSeeds
	case asked, s.daily && (s.over == "quic" || s.sctp != nil):
		return 1
	}
	return 0
}

func (s scenario) allWindows() []window {
	if len(s.windows) > 0 {
		return s.windows
	}
	return []window{{"", warmUp, warmUp + s.span()}}
}

// measureAlone returns the p99 of each load on a link of its own.
func (s scenario) measureAlone(t *testing.T, seed uint64) (p99 []float64) {
	for i := range s.loads {
		if !s.alone {
			p99 = append(p99, 0)
			continue
		}
		only := s
		only.loads = s.loads[i : i+1]
		readers, b := only.run(t, seed)
		p99 = append(p99, readers[0].sum(s.allWindows()[0], b, s.loads[i]).p99)
	}
	return p99
}

// add adds the lines of one window with one seed. It combines the channels of a class: the average
// of the means, and the worst of the rest.
func (r *results) add(readers []*ageReader, b *bench, w window, alone []float64) {
	lines, count := map[key]stat{}, map[key]float64{}
	for i, l := range r.s.loads {
		k := key{l.class, w.name}
		if k.class == "" {
			k.class = l.channel
		}
		if !slices.Contains(r.keys, k) {
			r.keys = append(r.keys, k)
		}
		s := readers[i].sum(w, b, l)
		s.alone = alone[i]
		s.formula = formula(l, b.at(w.from))
		s.floor = ageStat(cut(b.oracle(i), w, r.s.step())).mean
		lines[k] = lines[k].and(s)
		count[k]++
	}
	for k, s := range lines {
		n := count[k]
		s.mean, s.floor, s.formula, s.perSecond = s.mean/n, s.floor/n, s.formula/n, s.perSecond/n
		r.stats[k] = append(r.stats[k], s)
	}
}

// and returns the sum of the averaged fields, and the worse value of each other field.
func (s stat) and(o stat) stat {
	return stat{
		floor: s.floor + o.floor, formula: s.formula + o.formula, mean: s.mean + o.mean, perSecond: s.perSecond + o.perSecond,
		p99: max(s.p99, o.p99), max: max(s.max, o.max), alone: max(s.alone, o.alone), missing: s.missing + o.missing,
		arrivedFrames: s.arrivedFrames + o.arrivedFrames, late: s.late + o.late, unexcused: s.unexcused + o.unexcused, gap: max(s.gap, o.gap), fresh: max(s.fresh, o.fresh), way: max(s.way, o.way),
	}
}

// sum returns the average of a line over the seeds, and the worst seed.
func (r *results) sum(k key) (mean, worst stat) {
	n := float64(len(r.stats[k]))
	for _, s := range r.stats[k] {
		mean, worst = mean.and(s), worst.and(s)
	}
	mean.mean, mean.floor, mean.formula, mean.perSecond = mean.mean/n, mean.floor/n, mean.formula/n, mean.perSecond/n
	return mean, worst
}

// spread returns the range of the seeds' means, relative to their average.
func (r *results) spread(k key) float64 {
	least, most, sum := r.stats[k][0].mean, 0.0, 0.0
	for _, s := range r.stats[k] {
		least, most, sum = min(least, s.mean), max(most, s.mean), sum+s.mean
	}
	return (most - least) / (sum / float64(len(r.stats[k])))
}
