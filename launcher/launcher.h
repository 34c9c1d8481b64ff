/* What the parts of the native launcher have in common. launcher.c says what it is and what it must never do. */
#ifndef LAUNCHER_H
#define LAUNCHER_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "launcher_values.h"

#define HEADER 5 /* bytes of a frame before its payload */
#define TOKEN_BYTES 16

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

/* The call; main says what it is. */
struct call {
    const char *file; /* this program as the kernel was told to start it, for the script's $0 */
    const char *name; /* the command */
    enum run_mode mode;
    char **arguments;  /* behind the name */
    bool is_closed[3]; /* standard streams that were closed at the start */
    void (*pipe_action)(int); /* what SIGPIPE did then */
    char token[2 * TOKEN_BYTES + 1];
    bool has_spoken;     /* the door has, after the request */
    struct bytes record; /* of a submission: what was shown and typed, as frames */
};

extern struct call call;

/* The handler of signals sets and reads them, too. */
extern volatile sig_atomic_t is_started, is_sending, is_reading, is_cancelled;

/* ending.c: what is said, and every end but the door's exit code */
bool write_all(int stream, const char *data, size_t size);
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);
void append(struct bytes *bytes, const void *data, size_t size);
void put_header(char *header, char kind, size_t size);
void append_frame(struct bytes *bytes, char kind, const char *payload, size_t size);
_Noreturn void out_of_memory(void);
_Noreturn void hand_over(const char *state);
__attribute__((format(printf, 1, 2))) _Noreturn void leave(const char *format, ...);
_Noreturn void leave_by_errno(void);
_Noreturn void broken_off(void);
_Noreturn void end_of_pipe(void);

/* door.c: the connection, and the signals while it lasts */
extern const int SIGNALS[3];
void hear_signals(void);
void connect_to_door(void);
int64_t now_ms(void);
bool next_frame(struct frame *frame, int64_t deadline);
bool send_all(const char *data, size_t size);

#endif
