/* The native launcher's connection to the door, and the signals while it lasts. It must never trust a door that is not
 * the caller's own, root's, or one that root has named. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "launcher.h"

static int door = -1; /* the connection */
volatile sig_atomic_t is_started, is_sending, is_reading, is_cancelled;
static volatile sig_atomic_t cancel_is_sent;
const int SIGNALS[3] = {SIGINT, SIGTERM, SIGHUP};

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

void hear_signals(void)
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
    /* Non-blocking, or a FIFO of this name would be waited for. */
    int descriptor = open(door_file(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
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

void connect_to_door(void)
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

int64_t now_ms(void)
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
bool next_frame(struct frame *frame, int64_t deadline)
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

bool send_all(const char *data, size_t size)
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
