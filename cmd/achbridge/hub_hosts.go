//go:build !nohub

package main

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/hub"
	"achbridge/cmd/achbridge/ui"
)

func hubAddCommand(a *app) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:         "add HOST",
		Short:       "Add a host to the hub and write the host's credentials",
		Example:     examples("achbridge hub add krang", "achbridge hub add krang -o creds/krang.creds"),
		Annotations: docs("docs/fleet.md"),
		Args:        takes("HOST"),
	}
	a.inHub(cmd, func(_ *cobra.Command, dir hub.Directory, args []string) error {
		path := cmp.Or(out, args[0]+".creds")
		if err := dir.Add(args[0], path); err != nil {
			return err
		}
		return a.ui.Line("%s", path)
	})
	cmd.Flags().StringVarP(&out, "out", "o", "", "write the credentials to a new `FILE` (default HOST.creds)")
	return cmd
}

func hubRemoveCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:         "remove HOST",
		Short:       "Remove a host from the hub and close its connections",
		Example:     examples("achbridge hub remove krang", "achbridge hub remove krang --dir /srv/hub"),
		Annotations: docs("docs/fleet.md"),
		Args:        takes("HOST"),
	}
	a.inHub(cmd, func(_ *cobra.Command, dir hub.Directory, args []string) error {
		if err := dir.Remove(args[0]); err != nil {
			return err
		}
		a.ui.Line("%s is removed", args[0])
		id, err := dir.Identity()
		if err == nil && id.Foreign {
			a.ui.Note("%s", id.LeftBy(args[0]))
		}
		return err
	})
	return cmd
}

func hubListCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:         "ls",
		Short:       "List the hosts of the hub and their traffic",
		Example:     examples("achbridge hub ls", "achbridge hub ls --json"),
		Annotations: docs("docs/fleet.md"),
		Args:        takes(),
	}
	a.inHub(cmd, func(cmd *cobra.Command, dir hub.Directory, _ []string) error {
		id, err := dir.Identity()
		if err != nil {
			return err
		}
		var r hub.Report
		_, err = api.New(dir.Socket()).Get(cmd.Context(), "/v1/hub", &r)
		if errors.Is(err, api.ErrNoDaemon) {
			r, err = dir.ReportAtRest()
		}
		switch {
		case err != nil:
			return err
		case a.asJSON:
			return a.ui.JSON(r)
		case len(r.Hosts) == 0:
			return ui.NotFound(fmt.Errorf("hub %s: it has no hosts", dir), "achbridge hub add HOST")
		}
		if err := a.showHub(r); err != nil {
			return err
		}
		if !r.Running && !id.Foreign {
			a.ui.Note("no hub is running here; start it: achbridge hub")
		}
		return nil
	})
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) showHub(r hub.Report) error {
	var rows [][]string
	for _, h := range r.Hosts {
		row := []string{h.Host, "away", "", "", "", "", ""}
		if h.Connected {
			row = []string{h.Host, "connected", ui.Seconds(float64(h.ForMs) / 1000), h.From, "", "", ui.AboutBytes(h.Waiting)}
		}
		if h.Sent+h.Received > 0 || h.Connected {
			row[4], row[5] = ui.AboutBytes(int(h.Sent)), ui.AboutBytes(int(h.Received))
		}
		rows = append(rows, row)
	}
	if r.Running {
		a.ui.Fields("hub", r.Address, "listen", r.Listen, "http", r.HTTP, "up", ui.Seconds(float64(r.UptimeMs)/1000),
			"channels", strconv.Itoa(r.Streams), "memory", ui.AboutBytes(int(r.Memory))+" of "+ui.AboutBytes(int(r.MaxMemory)))
		a.ui.Line("")
	}
	return a.ui.Table([]string{"HOST", "STATE", "FOR", "FROM", "SENT", "RECEIVED", "WAITING"}, rows, "WAITING", "FROM")
}

func hubCheckCommand(a *app) *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:         "check",
		Short:       "Check the files, certificate and port of the hub",
		Example:     examples("achbridge hub check", "achbridge hub check --listen :443"),
		Annotations: docs("docs/fleet.md"),
		Args:        takes(),
	}
	a.inHub(cmd, func(cmd *cobra.Command, dir hub.Directory, _ []string) error {
		var running hub.Report
		_, err := api.New(dir.Socket()).Get(cmd.Context(), "/v1/hub", &running)
		r := dir.Check(listen, a.Places, err == nil)
		err = show(a, r, a.showHubCheck)
		if err == nil && len(r.Problems) > 0 {
			err = ui.Usage(fmt.Errorf("hub %s: %s", dir, countText(len(r.Problems), "error")), "")
		}
		return err
	})
	cmd.Flags().StringVar(&listen, "listen", hub.Defaults().Listen, "check whether TCP `ADDRESS` is free")
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) showHubCheck(r hub.Checked) error {
	for _, p := range r.Problems {
		a.ui.Fail(ui.Usage(errors.New(p.Text), p.Fix))
	}
	if len(r.Problems) > 0 {
		return nil
	}
	a.ui.Line("%s: good", r.Dir)
	state := "stopped; its port is free"
	switch {
	case r.Running:
		state = "running"
	case r.Foreign:
		state = "a nats-server elsewhere"
	}
	return a.ui.Fields("address", r.Address, "certificate", r.Hash, "hosts", strconv.Itoa(r.Hosts), "state", state)
}

func hubConfigCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:         "config",
		Short:       "Print the configuration for your own nats-server",
		Example:     examples("achbridge hub config > achbridge.conf", "achbridge hub config --dir /srv/hub"),
		Annotations: docs("docs/fleet.md"),
		Args:        takes(),
	}
	a.inHub(cmd, func(_ *cobra.Command, dir hub.Directory, _ []string) error {
		text, err := dir.NATSConfig()
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(a.ui.Out, text)
		return err
	})
	return cmd
}
