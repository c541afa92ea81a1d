package operator

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// state is the form in which a Table is stored.
type state struct {
	Boot       id         `json:"boot"` // boot id of this host
	Generation uint64     `json:"generation"`
	Locks      []keptLock `json:"locks"`
}

type keptLock struct {
	Channel    string `json:"channel"`
	Host       string `json:"host"`
	Node       id     `json:"node"`
	Hardware   id     `json:"hardware"`
	Boot       id     `json:"boot"` // boot id of the holder
	Generation uint64 `json:"generation"`
	Taken      int64  `json:"taken_ns"` // CLOCK_BOOTTIME
	End        int64  `json:"end_ns"`   // CLOCK_BOOTTIME; 0 means no end
}

// id is an identifier in hexadecimal.
type id [16]byte

func (i id) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(i[:])), nil }

func (i *id) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err == nil && len(b) != len(i) {
		err = fmt.Errorf("%d bytes, want %d", len(b), len(i))
	}
	copy(i[:], b)
	return err
}

// Encode returns the state to store.
func (t Table) Encode() []byte {
	s := state{Boot: t.boot, Generation: t.generation, Locks: []keptLock{}}
	for _, l := range t.List() {
		s.Locks = append(s.Locks, keptLock{
			Channel: l.Channel, Host: l.Holder.Host, Node: l.Holder.Node, Hardware: l.Holder.Hardware, Boot: l.Holder.Boot,
			Generation: l.Generation, Taken: int64(l.TakenAt), End: int64(l.End),
		})
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic("operator: " + err.Error()) // these types can always be encoded
	}
	return append(text, '\n')
}

// Restore returns the table of an earlier incarnation of the daemon, at now. Each holder has its grace to return. After a
// reboot, or if boot is zero, which means unknown, nobody holds a lock. On an error the table is empty, too.
func Restore(text []byte, boot [16]byte, now time.Duration) (Table, error) {
	t := Table{boot: boot, locks: map[string]Lock{}}
	if len(text) == 0 {
		return t, nil
	}
	var s state
	if err := json.Unmarshal(text, &s); err != nil {
		return t, err
	}
	if s.Boot != boot || boot == ([16]byte{}) {
		t.generation = s.Generation
		return t, nil
	}
	locks := map[string]Lock{}
	for _, k := range s.Locks {
		l := Lock{
			Channel: k.Channel, Holder: Holder{k.Host, k.Node, k.Hardware, k.Boot}, Generation: k.Generation,
			TakenAt: time.Duration(k.Taken), End: time.Duration(k.End), receivedAt: now,
		}
		_, isTwice := locks[l.Channel]
		switch {
		case isTwice, l.Channel == "", l.Holder.Host == "", l.Holder.Boot == [16]byte{}, l.Generation == 0, l.Generation > s.Generation,
			l.TakenAt > now, l.End < 0, l.End != 0 && l.End < l.TakenAt:
			return t, fmt.Errorf("the lock of %q is damaged", l.Channel)
		case len(locks) >= MaxLocks:
			return t, errFull
		}
		transitions.Move(&l.phase, InGrace)
		locks[l.Channel] = l
	}
	if s.Generation == 0 && len(s.Locks) > 0 {
		return t, errors.New("it has no generation")
	}
	t.generation, t.locks = s.Generation, locks
	return t, nil
}
