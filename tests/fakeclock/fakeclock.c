// A clock that is wrong by as many seconds as GSCHED_FAKE_CLOCK_S says, for a process that is started with this library
// in LD_PRELOAD. Durations are true: only the time of day is moved.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long offset_s(void) {
  const char *given = getenv("GSCHED_FAKE_CLOCK_S");
  return given ? atol(given) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *found) {
  long result = syscall(SYS_clock_gettime, clock, found);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) found->tv_sec += offset_s();
  return (int)result;
}

int gettimeofday(struct timeval *restrict found, void *restrict zone) {
  long result = syscall(SYS_gettimeofday, found, zone);
  if (result == 0) found->tv_sec += offset_s();
  return (int)result;
}

time_t time(time_t *found) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (found) *found = now.tv_sec;
  return now.tv_sec;
}
