/* What a supervisor is while its job runs and nothing else is to be done: it waits, with a hundredth of an interpreter's memory.
 *
 * A supervisor that has waited for a while (gsched/run/sleeping/handing_over.py) executes this in its own process, so
 * that it stays the parent of its job. When a process of the job has ended, when the agent has poked it (SIGUSR1) or when
 * the time is over, it executes the interpreter again, which does whatever is to be done. It must never take the end of
 * a child from the kernel (wait without WNOWAIT), never end while its job runs, and never close what it was given open.
 *
 * Where the job itself has ended it writes down how before it leaves: should the interpreter not start, as gsched is being
 * installed anew at that moment or the machine has no memory, the agent reads that (gsched/run/spool.py, `waited`).
 *
 * Signals are blocked and ignored as the supervisor has left them; that outlives execve(2), as what is pending does.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "waiter_values.h"

#define FIRST_PAUSE_MS 100
#define MOST_PAUSE_MS 10000
#define MOST_TRIES 20

static long long now_ms(clockid_t clock)
{
    struct timespec now = {0};
    (void)clock_gettime(clock, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Whether a child has ended; true as well where there is none, which is for the interpreter to see. */
static bool has_end(idtype_t kind, id_t id, siginfo_t *end)
{
    memset(end, 0, sizeof *end);
    while (waitid(kind, id, end, WEXITED | WNOHANG | WNOWAIT) != 0) {
        if (errno != EINTR)
            return true;
    }
    return end->si_pid != 0;
}

/* Until a child has ended, the agent has poked, or so many milliseconds are over; 0: however long it takes. */
static void wait_for_news(long long most_ms)
{
    long long until = now_ms(CLOCK_MONOTONIC) + most_ms;
    siginfo_t end;
    sigset_t awaited;
    (void)sigemptyset(&awaited);
    (void)sigaddset(&awaited, SIGCHLD);
    (void)sigaddset(&awaited, SIGUSR1);
    while (!has_end(P_ALL, 0, &end)) {
        long long left = until - now_ms(CLOCK_MONOTONIC);
        if (most_ms > 0 && left <= 0)
            return;
        struct timespec pause = {.tv_sec = (time_t)(left / 1000), .tv_nsec = (long)(left % 1000 * 1000000)};
        if (sigtimedwait(&awaited, NULL, most_ms > 0 ? &pause : NULL) == SIGUSR1)
            return;
    }
}

/* How the job has ended, as wait(2) tells it, and when: for the agent. True where that is on disk. */
static bool write_end(const char *folder, pid_t job)
{
    char path[PATH_MAX], text[128];
    siginfo_t end;
    if (!has_end(P_PID, (id_t)job, &end) || end.si_pid != job)
        return false;
    int status = end.si_code == CLD_EXITED ? (end.si_status & 0xff) << 8
                                           : end.si_status | (end.si_code == CLD_DUMPED ? WCOREFLAG : 0);
    long long at = now_ms(CLOCK_REALTIME);
    int size = snprintf(text, sizeof text, "{\"status\":%d,\"ended_at\":%lld.%03d}", status, at / 1000, (int)(at % 1000));
    if (snprintf(path, sizeof path, "%s/" WAITED, folder) >= (int)sizeof path)
        return false;
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0)
        return errno == EEXIST;
    bool is_whole = write(file, text, (size_t)size) == size;
    if (close(file) != 0 || !is_whole) {
        (void)unlink(path);
        return false;
    }
    return true;
}

int main(int count, char **words)
{
    if (count < 5) {
        (void)fprintf(stderr, "usage: %s FOLDER PROCESS MILLISECONDS COMMAND...; supervisors of gsched execute it\n", WAITER);
        return 2;
    }
    pid_t job = (pid_t)strtol(words[2], NULL, 10);
    wait_for_news(strtoll(words[3], NULL, 10));
    long pause_ms = FIRST_PAUSE_MS;
    for (int tries = 0;; tries++) {
        bool is_written = write_end(words[1], job);
        (void)execv(words[4], words + 4);
        if (is_written && tries >= MOST_TRIES)
            return 1; /* there is no interpreter any more: the agent goes on */
        struct timespec pause = {.tv_sec = pause_ms / 1000, .tv_nsec = pause_ms % 1000 * 1000000};
        (void)nanosleep(&pause, NULL);
        pause_ms = pause_ms * 2 < MOST_PAUSE_MS ? pause_ms * 2 : MOST_PAUSE_MS;
    }
}
