/* What the native launcher says, and how it ends or becomes bin/launcher. It must never have a command done twice. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "launcher.h"

#define DOOR_VARIABLE "gsched_door="

bool write_all(int stream, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t done = write(stream, data, size);
        if (done >= 0) {
            data += done;
            size -= (size_t)done;
        } else if (errno == EAGAIN) { /* a parent left it non-blocking */
            struct pollfd waiting = {.fd = stream, .events = POLLOUT};
            (void)poll(&waiting, 1, -1);
        } else if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

/* One line on standard error, if it can be had. */
void say(const char *format, ...)
{
    char line[PATH_MAX + 256];
    va_list values;
    va_start(values, format);
    int size = vsnprintf(line, sizeof line - 1, format, values);
    va_end(values);
    if (size < 0)
        return;
    size_t length = (size_t)size < sizeof line - 2 ? (size_t)size : sizeof line - 2;
    line[length] = '\n';
    (void)write_all(2, line, length + 1);
}

_Noreturn void out_of_memory(void)
{
    say("%s: out of memory", call.name);
    _exit(FAILURE);
}

void append(struct bytes *bytes, const void *data, size_t size)
{
    if (bytes->room - bytes->size < size) {
        size_t room = 2 * (bytes->size + size) + 4096;
        char *larger = realloc(bytes->data, room);
        if (larger == NULL)
            out_of_memory();
        bytes->data = larger;
        bytes->room = room;
    }
    if (size > 0)
        memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
}

void put_header(char *header, char kind, size_t size)
{
    header[0] = kind;
    header[1] = (char)(size >> 24);
    header[2] = (char)(size >> 16);
    header[3] = (char)(size >> 8);
    header[4] = (char)size;
}

void append_frame(struct bytes *bytes, char kind, const char *payload, size_t size)
{
    char header[HEADER];
    put_header(header, kind, size);
    append(bytes, header, HEADER);
    append(bytes, payload, size);
}

/* Handing over to bin/launcher */

/* The path that the script takes for its own: its folder is where the interpreter is, its end the command's name. */
static const char *scripts_own_path(void)
{
    static char path[2 * PATH_MAX];
    const char *slash = strrchr(call.file, '/');
    if (strcmp(slash == NULL ? call.file : slash + 1, call.name) == 0) {
        if (slash != NULL)
            return call.file;
        (void)snprintf(path, sizeof path, "./%s", call.file);
        return path;
    }
    char *real = realpath(call.file, NULL);
    const char *place = real == NULL ? call.file : real;
    slash = strrchr(place, '/');
    int folder = slash == NULL ? 0 : (int)(slash + 1 - place);
    (void)snprintf(path, sizeof path, "%.*s%s", folder < PATH_MAX ? folder : PATH_MAX, place, call.name);
    return path;
}

/* Run bin/launcher in this process. `state` is its `gsched_door=`: what has been done with the door. */
_Noreturn void hand_over(const char *state)
{
    for (size_t i = 0; i < sizeof SIGNALS / sizeof *SIGNALS; i++) {
        struct sigaction now;
        if (sigaction(SIGNALS[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            (void)signal(SIGNALS[i], SIG_DFL);
    }
    (void)signal(SIGPIPE, call.pipe_action);
    size_t count = 0;
    while (call.arguments[count] != NULL)
        count++;
    const char **words = calloc(count + 6, sizeof *words);
    struct bytes script = {0};
    append(&script, DOOR_VARIABLE, sizeof DOOR_VARIABLE - 1);
    append(&script, state, strlen(state));
    append(&script, SCRIPT, sizeof SCRIPT); /* with its NUL */
    if (words == NULL)
        out_of_memory();
    const char *start[] = {"bash", "-p", "-c", script.data, scripts_own_path()};
    memcpy(words, start, sizeof start);
    memcpy(words + 5, call.arguments, count * sizeof *words);
    for (int stream = 0; stream < 3; stream++) {
        if (call.is_closed[stream])
            (void)close(stream);
    }
    (void)execv("/bin/bash", (char **)words);
    say("%s: /bin/bash: %s", call.name, strerror(errno));
    _exit(FAILURE);
}

/* The door was of no use and has done nothing: the command is run in this process. */
_Noreturn void leave(const char *format, ...)
{
    if (is_cancelled)
        _exit(128 + SIGINT);
    const char *wish = getenv("GSCHED_DEBUG");
    if (wish != NULL && strcmp(wish, "1") == 0) {
        char reason[512];
        va_list values;
        va_start(values, format);
        (void)vsnprintf(reason, sizeof reason, format, values);
        va_end(values);
        say("%s: without the door: %s", call.name, reason);
    }
    hand_over("off");
}

_Noreturn void leave_by_errno(void)
{
    int problem = errno;
    leave("[Errno %d] %s", problem, strerror(problem));
}

/* A submission is asked again, by the script, under its token: the master answers it once. */
_Noreturn static void go_on_here(void)
{
    char state[16];
    int descriptor = memfd_create("submission", 0);
    if (descriptor >= 0 && write_all(descriptor, call.token, 2 * TOKEN_BYTES) &&
        write_all(descriptor, call.record.data, call.record.size) && lseek(descriptor, 0, SEEK_SET) == 0) {
        (void)snprintf(state, sizeof state, "%d", descriptor);
        hand_over(state);
    }
    say("%s: cannot keep what was read and shown: %s", call.name, strerror(errno));
    _exit(FAILURE);
}

/* The door is gone, or talks nonsense, and may have carried out the request. */
_Noreturn void broken_off(void)
{
    bool reads = call.mode == MODE_READS || call.mode == MODE_READS_HISTORY;
    if (call.mode == MODE_WAITS || (reads && !call.has_spoken))
        leave("it closed the connection");
    if (call.mode == MODE_SUBMITS && !is_cancelled)
        go_on_here();
    say("gsched: the door closed the connection; the request may or may not have been carried out");
    _exit(FAILURE);
}

/* Nobody reads the output any more: end as any program does then. */
_Noreturn void end_of_pipe(void)
{
    (void)signal(SIGPIPE, SIG_DFL);
    (void)kill(getpid(), SIGPIPE);
    _exit(128 + SIGPIPE); /* the signal is blocked */
}
