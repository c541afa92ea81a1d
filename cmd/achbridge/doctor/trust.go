package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"achbridge/bridge/trust"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/ui"
)

// checkKey checks that the key file exists, that no other user may read it, and how long its
// certificate is valid.
func checkKey(_ context.Context, p *patient) result {
	key, path, err := p.Key(p.config.Key, p.FindKey)
	if err != nil {
		return wrongKey(err)
	}
	if path == "" {
		return p.checkTrust(key, config.KeyText, time.Now())
	}
	if info, err := os.Stat(path); err == nil {
		owner, who := int(info.Sys().(*syscall.Stat_t).Uid), p.credentials()
		if who.uid != 0 && owner != who.uid {
			return result{State: failing, Text: fmt.Sprintf("%s belongs to %s, and the daemon runs as %s: it cannot be read again", path, ui.UserText(owner, -1), ui.UserText(who.uid, who.gid)),
				Fix: fmt.Sprintf("chown %d %s", who.uid, path)}
		}
	}
	return p.checkTrust(key, path, time.Now())
}

func wrongKey(err error) result {
	return result{State: failing, Text: err.Error(), Fix: cmp.Or(ui.Fix(err), "achbridge key new, or copy the file from a host of your network")}
}

// checkTrust checks the key's certificate: its end, and whether it is revoked.
func (p *patient) checkTrust(key trust.Key, path string, now time.Time) result {
	text := "network " + key.Network() + ", " + path
	if len(key.Networks()) > 1 {
		text += ", and a second key: it is being changed"
	}
	if key.Ends().IsZero() {
		return result{State: fit, Text: text}
	}
	list := p.revocations(path)
	fix := "achbridge ca issue " + key.Host() + ", where the authority is, and copy the file here"
	text += ", for host " + key.Host() + " until " + ui.Day(key.Ends())
	if n := list.Number(); n > 0 {
		text += fmt.Sprintf(", revocations up to list %d", n)
	}
	switch left := key.Ends().Sub(now); {
	case list.Has(key.Serial()):
		return result{State: failing, Text: text + ": its certificate is revoked", Fix: fix}
	case left < 0:
		return result{State: failing, Text: text + ": its certificate has ended", Fix: fix}
	case left < config.WarnAhead:
		return result{State: doubt, Text: fmt.Sprintf("%s: its certificate ends in %d days", text, int(left.Hours()/24)), Fix: fix}
	}
	return result{State: fit, Text: text}
}

// revocations returns the newest revocation list of this host: the one next to the key, or the
// one in the daemon's state directory.
func (p *patient) revocations(key string) (newest *trust.Revocations) {
	for _, path := range []string{config.RevokedBeside(key), p.StateFile(p.config.State, config.RevokedFile)} {
		if list, err := config.ReadRevocations(path); err == nil && list.Number() > newest.Number() {
			newest = list
		}
	}
	return newest
}

// unitName is the service that the packages install.
const unitName = "achbridge.service"

// checkUnit checks the service of systemd, where systemd runs.
func checkUnit(ctx context.Context, _ *patient) result {
	if _, err := os.Stat("/run/systemd/system"); errors.Is(err, fs.ErrNotExist) {
		return result{State: fit, Text: "systemd does not run here"}
	}
	out, err := exec.CommandContext(ctx, "systemctl", "show", unitName, "--property=LoadState,ActiveState,SubState,Result,NRestarts,UnitFileState").Output()
	if err != nil {
		return result{State: doubt, Text: "systemctl: " + err.Error(), Fix: "systemctl status achbridge"}
	}
	return unitResult(string(out))
}

// unitResult makes the result from the output of systemctl show.
func unitResult(out string) result {
	is := map[string]string{}
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		is[key] = value
	}
	text := fmt.Sprintf("%s is %s (%s), %s at boot", unitName, is["ActiveState"], is["SubState"], cmp.Or(is["UnitFileState"], "not started"))
	if n := is["NRestarts"]; n != "" && n != "0" {
		text += ", was restarted " + n + " times"
	}
	switch {
	case is["LoadState"] != "loaded":
		return result{State: fit, Text: "there is no " + unitName}
	case is["ActiveState"] == "failed":
		return result{State: failing, Text: text + ", because of " + is["Result"], Fix: "journalctl -u achbridge"}
	case is["ActiveState"] != "active":
		return result{State: doubt, Text: text, Fix: "systemctl enable --now achbridge"}
	case is["NRestarts"] != "" && is["NRestarts"] != "0":
		return result{State: doubt, Text: text, Fix: "journalctl -u achbridge"}
	}
	return result{State: fit, Text: text}
}
