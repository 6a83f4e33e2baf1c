// SPDX-License-Identifier: GPL-2.0
/*
 * rtrs_sysfs TABLE module=FILE | FOLDER=PATH...
 *
 * Checks the lines of TABLE (sysfs.table describes them): those of parameters with module=, the module's file, those of files
 * with the named folders. A file of these folders that is not in the table is a failure.
 */
#include <dirent.h>
#include <fcntl.h>
#include <regex.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ktap.h"
#include "util.h"

#define MODULE "rtrs_server"
#define TEXT_MAX 8192

static char *lines[1000];
static int line_count;
static char *const *arguments; /* NAME=VALUE, then NULL */

/* The file that the lines with texts are about. */
static struct {
	bool here; /* it is checked on this suite */
	const char *folder;
	char name[64], path[512], other[512];
	char pattern[1024];
	ino_t inode; /* of the folder */
} file;

static const struct {
	const char *name;
	int number;
} errors[] = {{"EINVAL", EINVAL}, {"EEXIST", EEXIST}, {"ERANGE", ERANGE}, {"ENODEV", ENODEV}, {"EADDRNOTAVAIL", EADDRNOTAVAIL}};

/* The errno with that name; 0 for another word. */
static int error_of(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
		if (!strcmp(name, errors[i].name))
			return errors[i].number;
	return 0;
}

/* The value of an argument NAME=VALUE, or NULL. */
static const char *argument(const char *name)
{
	size_t length = strlen(name);

	for (char *const *at = arguments; *at; at++)
		if (!strncmp(*at, name, length) && (*at)[length] == '=')
			return *at + length + 1;
	return NULL;
}

/* ---- the table */

/* A line with its %NAME% and \n replaced. */
static char *expanded(const char *line)
{
	char *text = calloc(1, TEXT_MAX), name[64];
	size_t length = 0;

	NEED(text);
	while (*line && *line != '\n') {
		NEED(length < TEXT_MAX / 2);
		if (*line == '%') {
			const char *end = strchr(line + 1, '%'), *value;

			NEED(end && end - line < 60);
			snprintf(name, sizeof(name), "%.*s", (int)(end - line - 1), line + 1);
			value = getenv(name);
			NEED(value);
			length += (size_t)sprintf(text + length, "%s", value);
			line = end + 1;
		} else if (line[0] == '\\' && line[1] == 'n') {
			text[length++] = '\n';
			line += 2;
		} else {
			text[length++] = *line++;
		}
	}
	return text;
}

static void read_table(const char *path)
{
	FILE *table = fopen(path, "r");
	char line[1024];

	NEED(table);
	while (fgets(line, sizeof(line), table)) {
		NEED(line_count < (int)ARRAY_SIZE(lines) && strchr(line, '\n'));
		if (line[0] != '#' && line[0] != '\n')
			lines[line_count++] = expanded(line);
	}
	fclose(table);
}

/* Cuts the next word off *rest. */
static char *word(char **rest)
{
	char *begin = *rest + strspn(*rest, " \t"), *end = begin + strcspn(begin, " \t");

	*rest = *end ? end + 1 : end;
	*end = 0;
	return begin;
}

/* Cuts a text in quotation marks off *rest. */
static char *quoted(char **rest)
{
	char *begin = strchr(*rest, '"'), *end = begin ? strchr(begin + 1, '"') : NULL;

	NEED(end);
	*end = 0;
	*rest = end + 1;
	return begin + 1;
}

static bool is_for(const char *who)
{
	return !strcmp(who, "both") || !strcmp(who, ktap_suite() == SUITE_OURS ? "ours" : "kernel");
}

/* True when a line of the table says that this suite has the file. */
static bool is_known(const char *folder, const char *name)
{
	char who[16], in[64], names[128];

	for (int i = 0; i < line_count; i++) {
		if (sscanf(lines[i], "%15s %63s %127s", who, in, names) != 3 || lines[i][0] == '\t' || strcmp(in, folder) ||
		    !is_for(who))
			continue;
		names[strcspn(names, "=")] = 0;
		if (!strcmp(names, name))
			return true;
	}
	return false;
}

/* ---- reading and writing */

/* The text of a file without its last newline, which it must have. */
static bool text_of(const char *path, char *text)
{
	int fd = open(path, O_RDONLY);
	ssize_t length = fd < 0 ? -1 : read(fd, text, TEXT_MAX - 1);

	if (fd >= 0)
		close(fd);
	if (length < 1 || text[length - 1] != '\n')
		return false;
	text[length - 1] = 0;
	return true;
}

/* True when the file soon (within ms) reads like the pattern. */
static bool matches_within(int ms, const char *path, const char *pattern)
{
	char text[TEXT_MAX] = "", whole[1100];
	regex_t compiled;
	bool matched;

	snprintf(whole, sizeof(whole), "^(%s)$", pattern);
	NEED(!regcomp(&compiled, whole, REG_EXTENDED | REG_NOSUB));
	matched = WAIT_UNTIL(ms, text_of(path, text) && !regexec(&compiled, text, 0, NULL, 0));
	regfree(&compiled);
	if (!matched)
		note("%s reads '%s'", path, text);
	return matched;
}

static bool matches(const char *path, const char *pattern)
{
	return matches_within(0, path, pattern);
}

/* 0, or the errno of writing a line. */
static int written(const char *path, const char *text)
{
	char line[1024];
	int fd = open(path, O_WRONLY), length = snprintf(line, sizeof(line), "%s\n", text), error;

	if (fd < 0)
		return errno;
	error = write(fd, line, (size_t)length) == length ? 0 : errno;
	close(fd);
	return error;
}

static bool reads_same(const char *first, const char *second)
{
	char a[TEXT_MAX], b[TEXT_MAX];

	return text_of(first, a) && text_of(second, b) && !strcmp(a, b);
}

static ino_t inode_of(const char *path)
{
	struct stat status;

	return stat(path, &status) ? 0 : status.st_ino;
}

/* ---- a line of the table */

static void check_file(char *rest)
{
	const char *who = word(&rest), *folder, *base;
	struct stat status;
	char *name, *other;
	unsigned mode;

	folder = word(&rest);
	name = word(&rest);
	base = argument(folder);
	file.here = base && is_for(who);
	other = strchr(name, '=');
	if (other)
		*other++ = 0;
	if (!base)
		return;
	file.folder = base;
	file.inode = inode_of(base);
	snprintf(file.name, sizeof(file.name), "%s/%s", folder, name);
	snprintf(file.path, sizeof(file.path), "%s/%s", base, name);
	snprintf(file.other, sizeof(file.other), "%s/%s", base, other ? other : name);
	mode = (unsigned)strtoul(word(&rest), NULL, 8);
	snprintf(file.pattern, sizeof(file.pattern), "%s", rest);
	if (!file.here) {
		if (!is_known(folder, name))
			check(stat(file.path, &status) < 0, "%s: the kernel's own has no such file", file.name);
		return;
	}
	if (!check(!stat(file.path, &status), "%s exists", file.name))
		return;
	check((status.st_mode & 07777) == mode && !status.st_uid && !status.st_gid, "%s: mode %04o, of root", file.name, mode);
	check(matches(file.path, file.pattern), "%s: its format", file.name);
	if (other)
		check(reads_same(file.path, file.other), "%s reads as %s", file.name, other);
	if (!(mode & 0222))
		check(written(file.path, "1") == EACCES, "%s: cannot be written", file.name);
}

static void check_text(char *rest)
{
	const char *text = quoted(&rest);
	char path[1200], *how = word(&rest);
	int error, wanted;

	if (!file.here)
		return;
	if (!strcmp(how, "ours") || !strcmp(how, "kernel")) {
		if (!is_for(how))
			return;
		how = word(&rest);
	}
	wanted = error_of(how);
	error = written(file.path, text);
	if (error != wanted)
		note("%s: '%s' gives %s", file.path, text, strerror(error));
	check(error == wanted, "%s: '%s' gives %s", file.name, text, wanted ? how : "no error");
	if (wanted) {
		check(matches(file.path, file.pattern), "%s: and nothing has changed", file.name);
	} else if (!strcmp(how, "ok")) {
		snprintf(file.pattern, sizeof(file.pattern), "%s", rest);
		check(matches(file.path, rest), "%s: and reads %s", file.name, rest);
		check(reads_same(file.path, file.other), "%s: under each name", file.name);
	} else if (!strcmp(how, "then")) {
		snprintf(path, sizeof(path), "%s/%s", file.folder, word(&rest));
		check(matches_within(4 * SOON_MS, path, rest), "%s: and then %s reads %s", file.name,
		      path + strlen(file.folder) + 1, rest);
	} else {
		NEED(!strcmp(how, "gone"));
		check(WAIT_UNTIL(4 * SOON_MS, inode_of(file.folder) != file.inode), "%s: and its folder is gone", file.name);
	}
}

static void check_parameter(char *rest)
{
	const char *options = quoted(&rest), *how = word(&rest);
	int module = open(argument("module"), O_RDONLY), wanted = error_of(how), error;
	struct stat status;
	char path[200];

	NEED(module >= 0);
	error = syscall(SYS_finit_module, module, options, 0) ? errno : 0;
	close(module);
	if (error != wanted)
		note("it gives %s", strerror(error));
	check(error == wanted, "parameters '%s': %s", options, wanted ? how : "loaded");
	if (error)
		return;
	if (!wanted) {
		snprintf(path, sizeof(path), "/sys/module/" MODULE "/parameters/%s", how);
		check(matches(path, rest), "parameters '%s': %s reads %s", options, how, rest);
		check(!stat(path, &status) && (status.st_mode & 07777) == 0444, "%s: mode 0444", how);
	}
	NEED(WAIT_UNTIL(SOON_MS, !syscall(SYS_delete_module, MODULE, O_NONBLOCK)));
}

/* ---- what is not in the table */

static void check_complete(const char *folder, const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	char name[800];
	struct stat status;
	bool complete = true;

	if (!dir)
		return; /* it is made later */
	while ((entry = readdir(dir))) {
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		/* uevent is the kernel's, as are folders and links */
		if (lstat(name, &status) || !S_ISREG(status.st_mode) || !strcmp(entry->d_name, "uevent") ||
		    is_known(folder, entry->d_name))
			continue;
		note("%s is not in the table", name);
		complete = false;
	}
	closedir(dir);
	check(complete, "%s: all files are in the table", folder);
}

int main(int argc, char **argv)
{
	argc = ktap_start("rtrs_sysfs", argc, argv);
	NEED(argc > 2);
	arguments = argv + 2;
	read_table(argv[1]);
	for (char *const *at = arguments; *at && !argument("module"); at++) {
		char folder[64];

		NEED(sscanf(*at, "%63[^=]=", folder) == 1);
		check_complete(folder, argument(folder));
	}
	for (int i = 0; i < line_count; i++) {
		char *rest = lines[i];
		bool is_parameter = !strncmp(rest, "param ", 6);

		if (rest[0] == '\t')
			check_text(rest);
		else if (!is_parameter && !argument("module"))
			check_file(strdup(rest));
		else if (is_parameter && argument("module"))
			check_parameter(rest);
	}
	return ktap_finish();
}
