/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_OPTIONS_H
#define HAWSER_TOOLS_OPTIONS_H

/*
 * Common to the command lines of all programs: their common options, and values that are checked.
 */

#include <getopt.h>
#include <stdint.h>
#include <stdnoreturn.h>

/* What getopt_long gives for the common options; a program's own ones without a letter begin with the last. */
enum { OPTION_VERSION = 256, OPTION_JSON, OPTION_FIRST_OWN };

/* Among the long options; and the letters with which a program's own begin. */
#define OPTIONS_OF_ALL { "help", no_argument, NULL, 'h' }, { "version", no_argument, NULL, OPTION_VERSION }
#define LETTERS_OF_ALL "h"

/* Obeys --help, which @usage prints, and --version; all else is unknown, which getopt has said. Exits. */
noreturn void obey_option_of_all(int option, void (*usage)(void));

/* The option's argument as a number, or as a time of at least @minimum ns; exits if it is none. @what names it in the error. */
uint64_t option_number(const char *what, uint64_t minimum, uint64_t maximum);
uint64_t option_time(const char *what, uint64_t minimum);

/* The one argument that is no option, an address. */
const char *only_address(int argc, char **argv);

/* For programs that have none. */
void no_arguments(int argc, char **argv);

#endif
