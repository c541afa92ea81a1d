package hub

import (
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/ui"
)

// Checked is what Check has found. Lists are never null.
type Checked struct {
	Dir      string    `json:"dir"`
	Address  string    `json:"address,omitempty"`
	Foreign  bool      `json:"foreign"`               // it is for a nats-server of somebody else
	Hash     string    `json:"certificate,omitempty"` // as in credentials
	Hosts    int       `json:"hosts"`
	Running  bool      `json:"running"`
	Listen   string    `json:"listen,omitempty"` // where it could listen; empty while it runs
	Problems []Problem `json:"problems"`
}

// Problem is a mistake and its cure.
type Problem struct {
	Text string `json:"problem"`
	Cure string `json:"cure"`
}

// Check looks for what would keep a hub from its work: its files, a directory in memory, and,
// unless it runs, the port.
func (d Directory) Check(at string, p config.Places, running bool) Checked {
	r := Checked{Dir: string(d), Problems: []Problem{}}
	complain := func(err error) { r.Problems = append(r.Problems, Problem{err.Error(), ui.Cure(err)}) }
	id, problems := d.examine()
	for _, err := range problems {
		complain(err)
	}
	r.Address, r.Foreign, r.Running = id.Address, id.Foreign, running
	r.Hash = id.HashText()
	if list, err := d.Hosts(); err == nil {
		r.Hosts = len(list)
	}
	if running || id.Foreign {
		return r
	}
	if ln, err := listen(at); err != nil {
		complain(err)
	} else {
		r.Listen = listenText(at, ln)
		ln.Close()
	}
	if store, err := makeStore(p, storeName(d)+"-check"); err != nil {
		complain(err)
	} else {
		removeStore(store)
	}
	return r
}
