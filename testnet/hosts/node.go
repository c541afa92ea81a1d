package hosts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	nodeName = "achbridge-lab-host"      // argv[0] of a host's first process
	mainEnv  = "ACHBRIDGE_LAB_MAIN_CALL" // process id of the process that has called Main
)

// Main must be called first by every program that starts a lab, in main or TestMain.
// A host's first process is the same program. In that process Main runs the host and
// does not return. In other processes it returns at once.
func Main() {
	if len(os.Args) > 0 && os.Args[0] == nodeName {
		if err := runNode(); err != nil {
			fmt.Fprintf(os.Stderr, "lab host: %v\n", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// The process id in the environment keeps children from taking it for themselves.
	os.Setenv(mainEnv, fmt.Sprint(os.Getpid()))
}

// setup configures a host's first process.
type setup struct {
	Number int
	Hosts  []string
}

// node is a host: its first process, which is PID 1 of its namespace, and a socket
// whose end of file makes that process exit.
type node struct {
	cmd  *exec.Cmd
	conn *os.File
}

func startNode(name string) (*node, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socketpair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "lab"), os.NewFile(uintptr(fds[1]), "host")
	defer theirs.Close()
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{nodeName, name}, Stderr: os.Stderr, Dir: "/",
		ExtraFiles: []*os.File{theirs},
		SysProcAttr: &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
			// In another session, so that Ctrl-C does not end a host before the script.
			Setsid: true,
		},
	}
	if err := cmd.Start(); err != nil {
		ours.Close()
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EINVAL) {
			return nil, fmt.Errorf("new namespaces: %w: %w; run as root, in a container with --privileged", err, ErrPrivilege)
		}
		return nil, fmt.Errorf("new namespaces: %w", err)
	}
	return &node{cmd: cmd, conn: ours}, nil
}

// setUp makes the host configure itself, and returns the file of its TAP device.
func (n *node) setUp(s setup) (*os.File, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	if _, err := n.conn.Write(text); err != nil {
		return nil, fmt.Errorf("set up: %w", err)
	}
	reply, oob := make([]byte, 4096), make([]byte, unix.CmsgSpace(4))
	got, gotOOB, _, _, err := unix.Recvmsg(int(n.conn.Fd()), reply, oob, unix.MSG_CMSG_CLOEXEC)
	switch {
	case err != nil:
		return nil, fmt.Errorf("set up: %w", err)
	case got == 0:
		return nil, errors.New("set up: its first process died")
	case gotOOB == 0:
		return nil, errors.New(string(reply[:got]))
	}
	messages, err := unix.ParseSocketControlMessage(oob[:gotOOB])
	if err != nil {
		return nil, err
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	// Set before NewFile, so that reads wait in Go's poller.
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fds[0]), "tap"), nil
}

// stop makes the first process exit. The kernel then kills the other processes.
func (n *node) stop() { n.conn.Close() }

// runNode runs a host's first process.
func runNode() error {
	// The kernel reaps the children of a process that ignores SIGCHLD. Signals that
	// programs of the host send to PID 1 must not end the host.
	signal.Ignore(syscall.SIGCHLD, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE)
	conn := os.NewFile(3, "lab")
	text := make([]byte, 64<<10)
	n, err := conn.Read(text)
	if err == io.EOF {
		return nil // the lab ended before this process began
	}
	if err != nil {
		return err
	}
	var s setup
	if err := json.Unmarshal(text[:n], &s); err != nil {
		return err
	}
	if err := arrange(conn, s); err != nil {
		conn.WriteString(err.Error())
		return err
	}
	conn.Read(text) // blocks until the lab ends
	return nil
}

// arrange sets up the host's name, files and network, and sends the file of its TAP device.
func arrange(conn *os.File, s setup) error {
	if err := unix.Sethostname([]byte(s.Hosts[s.Number])); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	if err := mountPrivate(); err != nil {
		return err
	}
	if err := writeNames(s); err != nil {
		return err
	}
	tap, err := openTap()
	if err != nil {
		return err
	}
	defer unix.Close(tap)
	if err := configure(s.Number, len(s.Hosts)); err != nil {
		return err
	}
	return unix.Sendmsg(int(conn.Fd()), []byte("ready"), unix.UnixRights(tap), nil, 0)
}
