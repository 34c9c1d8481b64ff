/* A command's file where a C compiler was there at installation: takes the command to the door, as gsched/app/launch.py
 * does, without starting an interpreter.
 *
 * Whatever it does not do itself is handed to bin/launcher, whose text is built in (ending.c): a command that no door runs,
 * a door that is not there, not to be trusted or unwilling, an environment without HOME. It must never send anything to
 * a door that is not its own user's, root's, or one that root has named; never report a request as failed that the door
 * may have carried out without saying just that; and never hand a command over after something was read or printed,
 * except a submission, with all that was read and printed, and a command that waits.
 *
 * The values of the protocol and the table of commands are written by build_launcher.py, from the Python sources.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher.h"

#define SEEN_BITS (1u << 16)

extern char **environ;

struct call call;

/* The request: see gsched/door/protocol.py */

static void append_text(struct bytes *request, const char *text)
{
    if (request->size > 0)
        append(request, "", 1);
    append(request, text, strlen(text));
}

static void append_surroundings(struct bytes *request)
{
    char text[32], terminals[4] = "000", *folder = getcwd(NULL, 0);
    const char *last = getenv("PWD");
    /* Removed under our feet: its last name is the best there is. */
    append_text(request, folder != NULL ? folder : last != NULL ? last : "/");
    free(folder);
    mode_t mask = umask(077);
    (void)umask(mask);
    (void)snprintf(text, sizeof text, "%o", (unsigned)mask);
    append_text(request, text);
    for (int stream = 0; stream < 3; stream++)
        terminals[stream] = (char)('0' + isatty(stream));
    append_text(request, terminals);
    static const int order[] = {1, 2, 0};
    struct winsize window = {0};
    for (size_t i = 0; i < 3; i++) {
        if (terminals[order[i]] == '1' && ioctl(order[i], TIOCGWINSZ, &window) == 0)
            break;
        window.ws_col = 0;
    }
    (void)snprintf(text, sizeof text, "%u", (unsigned)window.ws_col);
    append_text(request, text);
}

/* Whether a variable of this name stands before `entry`: the first one counts. */
static bool is_second(char **entry, size_t size)
{
    static unsigned char seen[SEEN_BITS / 8];
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)(*entry)[i]) * 16777619u;
    hash = (hash ^ (hash >> 16)) % SEEN_BITS;
    bool may_be = seen[hash / 8] & 1u << (hash % 8);
    seen[hash / 8] |= (unsigned char)(1u << (hash % 8));
    for (char **other = environ; may_be && other != entry; other++) {
        if (strncmp(*other, *entry, size + 1) == 0) /* with the = */
            return true;
    }
    return false;
}

static void append_variables(struct bytes *request)
{
    for (char **entry = environ; *entry != NULL && request->size <= MAX_REQUEST; entry++) {
        const char *end = strchr(*entry, '=');
        /* A token in the environment is that of the submission of which this is the job, say. */
        if (end != NULL && !is_second(entry, (size_t)(end - *entry)) &&
            strncmp(*entry, TOKEN_VARIABLE, sizeof TOKEN_VARIABLE - 1) != 0)
            append_text(request, *entry);
    }
    if (call.mode == MODE_SUBMITS) {
        char text[sizeof TOKEN_VARIABLE + sizeof call.token];
        (void)snprintf(text, sizeof text, "%s%s", TOKEN_VARIABLE, call.token);
        append_text(request, text);
    }
}

/* The request in frames, with the word to go: in one piece, so that the door is woken once. */
static struct bytes framed_request(void)
{
    struct bytes request = {0}, frames = {0};
    char count[32];
    size_t number = 1;
    append_surroundings(&request);
    for (char **word = call.arguments; *word != NULL; word++)
        number++;
    (void)snprintf(count, sizeof count, "%zu", number);
    append_text(&request, count);
    append_text(&request, call.name);
    for (char **word = call.arguments; *word != NULL && request.size <= MAX_REQUEST; word++)
        append_text(&request, *word);
    append_variables(&request);
    if (request.size > MAX_REQUEST)
        leave("arguments and environment are too large for it");
    for (size_t start = 0; start < request.size; start += MAX_FRAME) {
        size_t left = request.size - start;
        append_frame(&frames, REQUEST, request.data + start, left < MAX_FRAME ? left : MAX_FRAME);
    }
    append_frame(&frames, GO, "", 0);
    free(request.data);
    return frames;
}

static void make_token(void)
{
    unsigned char random[TOKEN_BYTES];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        hand_over("");
    for (size_t i = 0; i < sizeof random; i++)
        (void)snprintf(call.token + 2 * i, 3, "%02x", random[i]);
}

/* Doing what the door asks */

static void answer(char kind, const char *text)
{
    struct bytes frame = {0};
    append_frame(&frame, kind, text, strlen(text));
    if (!send_all(frame.data, frame.size))
        broken_off();
    free(frame.data);
}

static void show(int stream, const struct frame *frame)
{
    if (call.mode == MODE_SUBMITS)
        append_frame(&call.record, frame->kind, frame->payload, frame->size);
    if (write_all(stream, frame->payload, frame->size))
        return;
    if (errno == EPIPE)
        end_of_pipe();
    const char *problem = strerror(errno);
    if (call.mode == MODE_SUBMITS && stream == 1) { /* who hears nothing of the job submits it again */
        const char *end = memchr(frame->payload, '\n', frame->size);
        size_t size = end == NULL ? frame->size : (size_t)(end - frame->payload);
        say("%s: cannot write to standard output: %s: %.*s", call.name, problem, (int)size, frame->payload);
    } else {
        say("%s: cannot write to standard output: %s", call.name, problem);
    }
    _exit(FAILURE);
}

/* `permissions`: what the end of a file is told with. */
static void send_input(int descriptor, const char *permissions)
{
    static char piece[HEADER + PIECE];
    char text[32];
    ssize_t left = INPUT_LIMIT;
    for (;;) {
        /* Reading may wait for a person or a pipe: there, Ctrl-C ends this process at once. */
        is_reading = 1;
        if (is_cancelled) /* it came after the last read had returned */
            _exit(128 + SIGINT);
        ssize_t size;
        do {
            size = read(descriptor, piece + HEADER, PIECE);
        } while (size < 0 && errno == EINTR);
        int problem = size < 0 ? errno : 0;
        is_reading = 0;
        if (descriptor == 0 && problem == EISDIR)
            problem = EBADF; /* as by the script, whose interpreter does not start with one */
        size_t got = size > 0 ? (size_t)size : 0;
        if (descriptor == 0 && call.mode == MODE_SUBMITS)
            append_frame(&call.record, READ_STDIN, piece + HEADER, got);
        left -= (ssize_t)got;
        if (left < 0)
            problem = EFBIG;
        if (problem != 0) {
            (void)snprintf(text, sizeof text, "%d", problem);
            answer(FAILED, text);
            return;
        }
        if (got == 0) {
            answer(END, permissions);
            return;
        }
        put_header(piece, DATA, got);
        if (!send_all(piece, HEADER + got))
            broken_off();
    }
}

static void send_file(const struct frame *frame)
{
    char text[32];
    struct stat status;
    int descriptor = -1, problem = EINVAL; /* a path with NUL in it */
    is_reading = 1;
    char *path = strndup(frame->payload, frame->size);
    if (path == NULL)
        out_of_memory();
    if (strlen(path) == frame->size) {
        descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        problem = descriptor < 0 || fstat(descriptor, &status) != 0 ? errno : 0;
    }
    free(path);
    if (problem != 0) {
        is_reading = 0;
        (void)snprintf(text, sizeof text, "%d", problem);
        answer(FAILED, text);
        return;
    }
    (void)snprintf(text, sizeof text, "%o", (unsigned)(status.st_mode & 07777));
    send_input(descriptor, text);
    (void)close(descriptor);
}

/* The exit code that the door gives; -1 when that is no number. */
static int exit_code(const struct frame *frame)
{
    char text[16], *end;
    if (frame->size == 0 || frame->size >= sizeof text)
        return -1;
    memcpy(text, frame->payload, frame->size);
    text[frame->size] = '\0';
    if (strspn(text, "-0123456789") != frame->size)
        return -1;
    long long code = strtoll(text, &end, 10);
    return *end == '\0' && end != text ? (int)(code & 0xff) : -1;
}

_Noreturn static void run(void)
{
    struct frame frame;
    while (next_frame(&frame, 0)) {
        if (frame.kind == REFUSED)
            leave("%.*s", (int)frame.size, frame.payload);
        call.has_spoken = true;
        if (frame.kind == OUT) {
            show(1, &frame);
        } else if (frame.kind == ERR) {
            show(2, &frame);
        } else if (frame.kind == READ_FILE) {
            send_file(&frame);
        } else if (frame.kind == READ_STDIN) {
            send_input(0, "");
        } else if (frame.kind == EXIT) {
            int code = exit_code(&frame);
            if (code < 0)
                break;
            _exit(code);
        }
    }
    broken_off();
}

_Noreturn static void through_door(void)
{
    struct frame hello;
    connect_to_door();
    hear_signals();
    struct bytes request = framed_request();
    if (!next_frame(&hello, now_ms() + HELLO_TIMEOUT_MS))
        leave("it closed the connection");
    if (hello.kind == REFUSED)
        leave("%.*s", (int)hello.size, hello.payload);
    if (hello.kind != HELLO || hello.size != sizeof GREETING - 1 || memcmp(hello.payload, GREETING, hello.size) != 0)
        leave("it is of another version");
    if (!send_all(request.data, request.size))
        leave_by_errno();
    is_started = 1;
    free(request.data);
    run();
}

/* Put something unusable in the place of a closed stream, or the door's socket would be taken for it. */
static void occupy_standard_streams(void)
{
    for (int stream = 0; stream < 3; stream++) {
        struct stat status;
        if (fstat(stream, &status) == 0)
            continue;
        /* Opened the wrong way round: using it is the same error as on a closed stream. */
        (void)open("/dev/null", stream == 0 ? O_WRONLY : O_RDONLY);
        call.is_closed[stream] = true;
    }
}

static const char *end_of_path(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

int main(int argc, char **argv)
{
    static char *nothing[] = {NULL};
    occupy_standard_streams();
    /* As a script's $0: what the kernel was told to start, whatever the caller calls it. */
    call.file = (const char *)getauxval(AT_EXECFN);
    if (call.file == NULL)
        call.file = argc > 0 ? argv[0] : "";
    call.name = end_of_path(call.file);
    call.arguments = argc > 0 ? argv + 1 : nothing;
    call.pipe_action = signal(SIGPIPE, SIG_IGN);
    if (strcmp(call.name, ANY_NAME) == 0) {
        if (call.arguments[0] == NULL || *end_of_path(call.arguments[0]) == '\0') {
            say("usage: %s NAME [ARGUMENT ...]: run the command of this name, as scripts of `gsched names` do", call.name);
            return FAILURE;
        }
        call.name = end_of_path(*call.arguments++);
    }
    size_t row = 0;
    while (row < sizeof COMMANDS / sizeof *COMMANDS && strcmp(COMMANDS[row].name, call.name) != 0)
        row++;
    call.mode = row < sizeof COMMANDS / sizeof *COMMANDS ? COMMANDS[row].mode : MODE_CHANGES;
    const char *wish = getenv("GSCHED_DOOR");
    if (call.mode == MODE_ATTENDS || call.mode == MODE_STARTS_TASKS || call.mode == MODE_IS_ELIM ||
        (wish != NULL && strcmp(wish, "off") == 0))
        hand_over("");
    if (call.mode == MODE_SUBMITS)
        make_token();
    through_door();
}
