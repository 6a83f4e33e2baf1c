// SPDX-License-Identifier: GPL-2.0
// counted COMMAND...    runs a command; prints the nanoseconds that it took and, of these, those that the processor slept.
//
// Where the clock counts instructions, the difference is what all code of the machine executed meanwhile.
#include <inttypes.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

int main(int argc, char **argv)
{
	uint64_t began = now_ns(), idle = idle_ns();
	int status;
	pid_t child;

	if (argc < 2)
		return 2;
	MARK_BEGIN();
	child = fork();
	if (child == 0) {
		dup2(2, 1); // the figures alone go to the output
		execvp(argv[1], argv + 1);
		perror(argv[1]);
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) != child) {
		perror("counted");
		return 1;
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		return 1;
	MARK_END();
	idle = idle_ns() - idle;
	printf("%" PRIu64 " %" PRIu64 "\n", now_ns() - began, idle);
	return 0;
}
