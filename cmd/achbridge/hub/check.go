package hub

import (
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/ui"
)

// Checked is the result of Check. Lists are never null.
type Checked struct {
	Dir      string    `json:"dir"`
	Address  string    `json:"address,omitempty"`
	Foreign  bool      `json:"foreign"`               // the directory is for a nats-server that others run
	Hash     string    `json:"certificate,omitempty"` // hash of the certificate, as in credentials
	Hosts    int       `json:"hosts"`
	Running  bool      `json:"running"`
	Listen   string    `json:"listen,omitempty"` // address at which the hub could listen; empty while the hub runs
	Problems []Problem `json:"problems"`
}

// Problem is an error and its fix.
type Problem struct {
	Text string `json:"problem"`
	Fix  string `json:"cure"`
}

// Check finds problems that would prevent a hub from working. It checks the files and, unless
// the hub runs, the port and the directory in memory. A foreign hub has only files.
func (d Directory) Check(at string, p config.Places, running bool) Checked {
	r := Checked{Dir: string(d), Problems: []Problem{}}
	report := func(err error) { r.Problems = append(r.Problems, Problem{err.Error(), ui.Fix(err)}) }
	id, problems := d.examine()
	for _, err := range problems {
		report(err)
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
		report(err)
	} else {
		r.Listen = listenText(at, ln)
		ln.Close()
	}
	if store, err := makeStore(p, storeName(d)+"-check"); err != nil {
		report(err)
	} else {
		removeStore(store)
	}
	return r
}
