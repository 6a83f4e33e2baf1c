// SPDX-License-Identifier: GPL-2.0
//
// What the parts of the lab's agent share: frames, and their ends.
//
// A frame is a line "VERB ID LENGTH\n" and LENGTH bytes, the same in both directions and on both sockets.

#ifndef LAB_AGENT_H
#define LAB_AGENT_H

#include <stdbool.h>
#include <stddef.h>

enum {
	PAYLOAD_MAX = 65536,	// of one frame; a put is cut into frames half that size
};

#define SOCKET_PATH "/run/lab.sock"

struct frame {
	char verb[16];
	unsigned int id;
	size_t length;
	char payload[PAYLOAD_MAX + 1];	// with a NUL at the end that length does not count
};

// Prints `what` and errno, and ends the program.
void die(const char *what) __attribute__((noreturn));

// Ends the program when the other side does not read any more.
void send_frame(int fd, const char *verb, unsigned int id, const void *payload, size_t length);
// Returns false at the end of the stream, and for what is no frame.
bool receive_frame(int fd, struct frame *frame);

// Runs a guest's command `verb` and returns its exit code.
int client_main(const char *verb, int argc, char **argv);

// Sends the leaks that kmemleak has found, where the kernel has it.
void report_leaks(int port);
// Sends how a scene ended (`status` is waitpid()'s), the kernel's taint, and every loaded module with its build-id.
void report_end(int port, int status);

#endif
