package hub

import (
	"fmt"
	"strconv"
	"strings"

	"achbridge/bridge/hub"
)

// NATSConfig returns the configuration with which a nats-server of others can be a hub for the
// hosts of the directory: an account with a user for each host. On such a server, hosts create
// their streams and consumers themselves.
func (d Directory) NATSConfig() (string, error) {
	id, err := d.Identity()
	if err != nil {
		return "", err
	}
	hosts, err := d.Hosts()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# For the nats-server at %s: include it in its configuration.\n", id.Address)
	fmt.Fprintf(&b, "# achbridge hub config wrote it, and writes it again when a host is added or removed.\n")
	fmt.Fprintf(&b, "max_payload: %d\n", hub.MaxPayload)
	b.WriteString("accounts {\n  ACHBRIDGE {\n    jetstream: enabled\n    users: [\n")
	for _, h := range hosts {
		p := hub.ForeignPermissionsOf(h.Name)
		fmt.Fprintf(&b, "      # %s\n      {nkey: %s, permissions: {\n", h.Name, h.Public)
		fmt.Fprintf(&b, "        publish: [%s]\n        subscribe: [%s]\n      }}\n", quoted(p.Publish), quoted(p.Subscribe))
	}
	b.WriteString("    ]\n  }\n}\n")
	return b.String(), nil
}

// LeftBy returns instructions to delete the streams and consumers of a removed host from a nats-server that others run.
func (id Identity) LeftBy(host string) string {
	name := hub.ConsumerName(host)
	return fmt.Sprintf("the nats-server at %s lets it in until it has read achbridge hub config again; then delete there by hand: streams %s,CHANNEL and consumers %s of all other streams",
		id.Address, name, name)
}

func quoted(subjects []string) string {
	list := make([]string, len(subjects))
	for i, s := range subjects {
		list[i] = strconv.Quote(s)
	}
	return strings.Join(list, ", ")
}
