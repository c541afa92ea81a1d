// A file that shrinks while it is mapped turns the next access into SIGBUS. Code between sigsetjmp and the end of ach_guarded
// survives that; any other SIGBUS goes to the handler that was there before (the Go runtime's).
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE // its longjmp check does not know jumps off a signal stack
#include "ach.h"

#include <setjmp.h>
#include <signal.h>

static __thread sigjmp_buf *volatile armed;
static struct sigaction previous;
static pthread_once_t installed = PTHREAD_ONCE_INIT;

static void on_sigbus(int sig, siginfo_t *info, void *context) {
	if (armed)
		siglongjmp(*armed, 1);
	if (previous.sa_flags & SA_SIGINFO)
		previous.sa_sigaction(sig, info, context);
	else if (previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN)
		signal(sig, SIG_DFL); // the access is repeated and ends the process
	else
		previous.sa_handler(sig);
}

static void install(void) {
	// SA_NODEFER and an empty mask: the handler changes no signal mask, so the jump out of it need not restore one.
	struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART};
	sigemptyset(&action.sa_mask);
	sigaction(SIGBUS, &action, &previous);
}

static int release_lock(void *unused) {
	(void)unused;
	ach_lock_lost();
	return ACH_OK;
}

static int guarded(int (*fn)(void *), void *arg) {
	sigjmp_buf here;
	if (sigsetjmp(here, 0)) {
		armed = NULL;
		return ACH_FAULT;
	}
	armed = &here;
	int status = fn(arg);
	armed = NULL;
	return status;
}

int ach_guarded(int (*fn)(void *), void *arg) {
	pthread_once(&installed, install);
	int status = guarded(fn, arg);
	if (status == ACH_FAULT)
		guarded(release_lock, NULL);
	return status;
}
