// Package child runs one program together with the daemon of this host, so that a container needs no other
// init process: `achbridge run -- PROGRAM ARGS`.
//
// The program starts when the daemon is ready. SIGTERM, SIGINT, SIGQUIT, SIGUSR1 and SIGUSR2 are passed on to
// the program, and the daemon continues until the program has ended, so that the program's last frames are sent.
// SIGHUP is not passed on: it reloads the daemon's configuration. There is no time limit for a program that got
// such a signal, since a robot may need time to reach a safe posture; the container engine has its own limit.
//
// As PID 1, the package also reaps the processes that the kernel hands to PID 1.
package child
