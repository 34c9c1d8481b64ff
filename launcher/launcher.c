/* A command's file where a C compiler was there at installation: takes the command to the door, as gsched/app/launch.py
 * does, without starting an interpreter.
 *
 * Whatever it does not do itself is handed to bin/launcher, whose text is built in (SCRIPT): a command that no door runs,
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
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "launcher_values.h"

#define DOOR_VARIABLE "gsched_door="
#define HEADER 5               /* bytes of a frame before its payload */
#define TOKEN_BYTES 16
#define SEEN_BITS (1u << 16)

extern char **environ;

/* Bytes that grow. */
struct bytes {
    char *data;
    size_t size, room;
};

struct frame {
    char kind;
    const char *payload; /* valid until the next frame is asked for */
    size_t size;
};

static const char *file; /* this program as the kernel was told to start it, for SCRIPT's $0 */
static const char *name; /* the command */
static enum run_mode mode;
static char **arguments; /* behind the name */
static bool is_closed[3]; /* standard streams that were closed at the start */
static void (*pipe_action)(int) = SIG_DFL;
static char token[2 * TOKEN_BYTES + 1];
static bool has_spoken;
static struct bytes record; /* of a submission: what was shown and typed, as frames */

/* Shared with on_signal. */
static int door = -1;
static volatile sig_atomic_t is_started, is_sending, is_reading, is_cancelled, cancel_is_sent;

/* What is said, and ends */

static bool write_all(int stream, const char *data, size_t size)
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
__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
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

_Noreturn static void out_of_memory(void)
{
    say("%s: out of memory", name);
    _exit(FAILURE);
}

static void append(struct bytes *bytes, const void *data, size_t size)
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

static void put_header(char *header, char kind, size_t size)
{
    header[0] = kind;
    header[1] = (char)(size >> 24);
    header[2] = (char)(size >> 16);
    header[3] = (char)(size >> 8);
    header[4] = (char)size;
}

static void append_frame(struct bytes *bytes, char kind, const char *payload, size_t size)
{
    char header[HEADER];
    put_header(header, kind, size);
    append(bytes, header, HEADER);
    append(bytes, payload, size);
}

/* Handing over to bin/launcher */

static const int SIGNALS[] = {SIGINT, SIGTERM, SIGHUP};

/* The path that the script takes for its own: its folder is where the interpreter is, its end the command's name. */
static const char *scripts_own_path(void)
{
    static char path[2 * PATH_MAX];
    const char *slash = strrchr(file, '/');
    if (strcmp(slash == NULL ? file : slash + 1, name) == 0) {
        if (slash != NULL)
            return file;
        (void)snprintf(path, sizeof path, "./%s", file);
        return path;
    }
    char *real = realpath(file, NULL);
    const char *place = real == NULL ? file : real;
    slash = strrchr(place, '/');
    int folder = slash == NULL ? 0 : (int)(slash + 1 - place);
    (void)snprintf(path, sizeof path, "%.*s%s", folder < PATH_MAX ? folder : PATH_MAX, place, name);
    return path;
}

/* Run bin/launcher in this process. `state` is its `gsched_door=`: what has been done with the door. */
_Noreturn static void hand_over(const char *state)
{
    for (size_t i = 0; i < sizeof SIGNALS / sizeof *SIGNALS; i++) {
        struct sigaction now;
        if (sigaction(SIGNALS[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            (void)signal(SIGNALS[i], SIG_DFL);
    }
    (void)signal(SIGPIPE, pipe_action);
    size_t count = 0;
    while (arguments[count] != NULL)
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
    memcpy(words + 5, arguments, count * sizeof *words);
    for (int stream = 0; stream < 3; stream++) {
        if (is_closed[stream])
            (void)close(stream);
    }
    (void)execv("/bin/bash", (char **)words);
    say("%s: /bin/bash: %s", name, strerror(errno));
    _exit(FAILURE);
}

/* The door was of no use and has done nothing: the command is run in this process. */
__attribute__((format(printf, 1, 2))) _Noreturn static void leave(const char *format, ...)
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
        say("%s: without the door: %s", name, reason);
    }
    hand_over("off");
}

_Noreturn static void leave_by_errno(void)
{
    int problem = errno;
    leave("[Errno %d] %s", problem, strerror(problem));
}

/* A submission is asked again, by the script, under its token: the master answers it once. */
_Noreturn static void go_on_here(void)
{
    char state[16];
    int descriptor = memfd_create("submission", 0);
    if (descriptor >= 0 && write_all(descriptor, token, 2 * TOKEN_BYTES) &&
        write_all(descriptor, record.data, record.size) && lseek(descriptor, 0, SEEK_SET) == 0) {
        (void)snprintf(state, sizeof state, "%d", descriptor);
        hand_over(state);
    }
    say("%s: cannot keep what was read and shown: %s", name, strerror(errno));
    _exit(FAILURE);
}

/* The door is gone, or talks nonsense, and may have carried out the request. */
_Noreturn static void broken_off(void)
{
    bool reads = mode == MODE_READS || mode == MODE_READS_HISTORY;
    if (mode == MODE_WAITS || (reads && !has_spoken))
        leave("it closed the connection");
    if (mode == MODE_SUBMITS && !is_cancelled)
        go_on_here();
    say("gsched: the door closed the connection; the request may or may not have been carried out");
    _exit(FAILURE);
}

/* Nobody reads the output any more: end as any program does then. */
_Noreturn static void end_of_pipe(void)
{
    (void)signal(SIGPIPE, SIG_DFL);
    (void)kill(getpid(), SIGPIPE);
    _exit(128 + SIGPIPE); /* the signal is blocked */
}

/* Signals: all is done in the handler, so that none is missed just before something is waited for */

static void send_cancel(void)
{
    char cancel[HEADER];
    put_header(cancel, CANCEL, 0);
    cancel_is_sent = 1;
    (void)send(door, cancel, sizeof cancel, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Passes the first Ctrl-C on to the door; ends this process on anything more. */
static void on_signal(int number)
{
    int kept = errno;
    if (number != SIGINT || is_cancelled || !is_started)
        _exit(128 + number);
    is_cancelled = 1;
    if (!is_sending)
        send_cancel();
    if (is_reading)
        _exit(128 + number);
    errno = kept;
}

static void hear_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, now;
    for (size_t i = 0; i < sizeof SIGNALS / sizeof *SIGNALS; i++)
        (void)sigaddset(&action.sa_mask, SIGNALS[i]);
    for (size_t i = 0; i < sizeof SIGNALS / sizeof *SIGNALS; i++) {
        /* What nohup or a plain shell's background ignores stays ignored. */
        if (sigaction(SIGNALS[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            (void)sigaction(SIGNALS[i], &action, NULL);
    }
}

/* Finding the door */

static const char *variable(const char *wanted)
{
    const char *value = getenv(wanted);
    return value != NULL && *value != '\0' ? value : NULL;
}

/* The file in the configuration folder that names the door's socket. */
static char *door_file(void)
{
    static const char below_home[] = "/.gsched/conf", end[] = "/.door";
    struct bytes path = {0};
    struct stat status;
    const char *folder = variable("GSCHED_ENVDIR");
    if (folder == NULL)
        folder = variable("LSF_ENVDIR");
    if (folder == NULL) {
        const char *home = variable("HOME");
        if (home == NULL)
            hand_over(""); /* the user database knows */
        append(&path, home, strlen(home));
        append(&path, below_home, sizeof below_home);
        folder = stat(path.data, &status) == 0 ? path.data : "/etc/gsched";
    }
    struct bytes result = {0};
    append(&result, folder, strlen(folder));
    append(&result, end, sizeof end);
    return result.data;
}

/* Path of the socket into `address`; whether it was root that named it. */
static bool find_socket(struct sockaddr_un *address)
{
    char path[4096];
    struct stat status;
    int descriptor = open(door_file(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0 || fstat(descriptor, &status) != 0)
        leave_by_errno();
    ssize_t size = read(descriptor, path, sizeof path);
    if (size < 0)
        leave_by_errno();
    (void)close(descriptor);
    while (size > 0 && path[size - 1] == '\n')
        size--;
    if (size == 0 || (size_t)size >= sizeof address->sun_path || memchr(path, '\0', (size_t)size) != NULL)
        leave("its socket's path is unusable");
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, path, (size_t)size);
    return status.st_uid == 0 && (status.st_mode & 022) == 0;
}

static void connect_to_door(void)
{
    struct sockaddr_un address = {0};
    struct ucred peer;
    socklen_t size = sizeof peer;
    bool is_roots = find_socket(&address);
    /* Non-blocking, so that a door that is full up is seen at once. */
    door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (door < 0 || connect(door, (struct sockaddr *)&address, sizeof address) != 0)
        leave_by_errno();
    if (getsockopt(door, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || size != sizeof peer)
        leave_by_errno();
    if (peer.uid != 0 && peer.uid != getuid() && !is_roots)
        leave("it belongs to uid %u", (unsigned)peer.uid);
    if (fcntl(door, F_SETFL, 0) != 0)
        leave_by_errno();
}

/* Frames */

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Bytes that have come; 0 when the door has closed the connection, -1 with errno. `deadline` is not 0 before the start. */
static ssize_t receive(char *data, size_t size, int64_t deadline)
{
    for (;;) {
        if (deadline != 0) {
            struct pollfd waiting = {.fd = door, .events = POLLIN};
            int64_t left = deadline - now_ms();
            if (left <= 0)
                leave("timed out");
            if (poll(&waiting, 1, (int)left) <= 0)
                continue;
        }
        ssize_t done = recv(door, data, size, 0);
        if (done >= 0 || errno != EINTR)
            return done;
    }
}

/* The door's next frame; false when there is none, or none that can be meant. */
static bool next_frame(struct frame *frame, int64_t deadline)
{
    static char buffer[HEADER + MAX_FRAME + PIECE];
    static size_t begin, end;
    for (;;) {
        if (end - begin >= HEADER) {
            const unsigned char *header = (const unsigned char *)buffer + begin;
            size_t size = (size_t)header[1] << 24 | (size_t)header[2] << 16 | (size_t)header[3] << 8 | header[4];
            if (size > MAX_FRAME)
                return false;
            if (end - begin - HEADER >= size) {
                *frame = (struct frame){.kind = buffer[begin], .payload = buffer + begin + HEADER, .size = size};
                begin += HEADER + size;
                return true;
            }
        }
        if (begin > 0) {
            memmove(buffer, buffer + begin, end - begin);
            end -= begin;
            begin = 0;
        }
        ssize_t done = receive(buffer + end, sizeof buffer - end, deadline);
        if (done < 0 && deadline != 0)
            leave_by_errno();
        if (done <= 0)
            return false;
        end += (size_t)done;
    }
}

static bool send_all(const char *data, size_t size)
{
    is_sending = 1;
    while (size > 0) {
        ssize_t done = send(door, data, size, MSG_NOSIGNAL);
        if (done >= 0) {
            data += done;
            size -= (size_t)done;
        } else if (errno != EINTR) {
            return false;
        }
    }
    is_sending = 0;
    if (is_cancelled && !cancel_is_sent) /* Ctrl-C came in the middle of a frame */
        send_cancel();
    return true;
}

static void answer(char kind, const char *text)
{
    struct bytes frame = {0};
    append_frame(&frame, kind, text, strlen(text));
    if (!send_all(frame.data, frame.size))
        broken_off();
    free(frame.data);
}

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
    if (mode == MODE_SUBMITS) {
        char text[sizeof TOKEN_VARIABLE + sizeof token];
        (void)snprintf(text, sizeof text, "%s%s", TOKEN_VARIABLE, token);
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
    for (char **word = arguments; *word != NULL; word++)
        number++;
    (void)snprintf(count, sizeof count, "%zu", number);
    append_text(&request, count);
    append_text(&request, name);
    for (char **word = arguments; *word != NULL && request.size <= MAX_REQUEST; word++)
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
        (void)snprintf(token + 2 * i, 3, "%02x", random[i]);
}

/* Doing what the door asks */

static void show(int stream, const struct frame *frame)
{
    if (mode == MODE_SUBMITS)
        append_frame(&record, frame->kind, frame->payload, frame->size);
    if (write_all(stream, frame->payload, frame->size))
        return;
    if (errno == EPIPE)
        end_of_pipe();
    say("%s: cannot write to standard output: %s", name, strerror(errno));
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
        if (descriptor == 0 && mode == MODE_SUBMITS)
            append_frame(&record, READ_STDIN, piece + HEADER, got);
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
        has_spoken = true;
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
        is_closed[stream] = true;
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
    file = (const char *)getauxval(AT_EXECFN);
    if (file == NULL)
        file = argc > 0 ? argv[0] : "";
    name = end_of_path(file);
    arguments = argc > 0 ? argv + 1 : nothing;
    pipe_action = signal(SIGPIPE, SIG_IGN);
    if (strcmp(name, ANY_NAME) == 0) {
        if (arguments[0] == NULL) {
            say("usage: %s NAME [ARGUMENT ...]: run the command of this name, as scripts of `gsched names` do", name);
            return FAILURE;
        }
        name = end_of_path(*arguments++);
    }
    size_t row = 0;
    while (row < sizeof COMMANDS / sizeof *COMMANDS && strcmp(COMMANDS[row].name, name) != 0)
        row++;
    mode = row < sizeof COMMANDS / sizeof *COMMANDS ? COMMANDS[row].mode : MODE_CHANGES;
    const char *wish = getenv("GSCHED_DOOR");
    if (mode == MODE_ATTENDS || mode == MODE_STARTS_TASKS || mode == MODE_IS_ELIM ||
        (wish != NULL && strcmp(wish, "off") == 0))
        hand_over("");
    if (mode == MODE_SUBMITS)
        make_token();
    through_door();
}
