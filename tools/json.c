// SPDX-License-Identifier: GPL-2.0
#include "json.h"

#include <assert.h>
#include <inttypes.h>

static void write_quoted(struct json *json, const char *text)
{
	fputc('"', json->file);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			fprintf(json->file, "\\%c", c);
		else if (c < 0x20 || c >= 0x7f)
			/* Bytes of unknown encoding are taken for Latin-1, so the document is always valid. */
			fprintf(json->file, "\\u%04x", c);
		else
			fputc(c, json->file);
	}
	fputc('"', json->file);
}

static void break_line(struct json *json)
{
	fprintf(json->file, "\n%*s", (int)json->depth * 2, "");
}

static void begin_value(struct json *json, const char *key)
{
	if (json->depth) {
		if (json->has_items[json->depth - 1])
			fputc(',', json->file);
		json->has_items[json->depth - 1] = true;
		break_line(json);
	}
	if (key) {
		write_quoted(json, key);
		fputs(": ", json->file);
	}
}

static void open_container(struct json *json, const char *key, char opening, char closing)
{
	begin_value(json, key);
	assert(json->depth < JSON_MAX_DEPTH);
	fputc(opening, json->file);
	json->has_items[json->depth] = false;
	json->closing[json->depth] = closing;
	json->depth++;
}

void json_start(struct json *json, FILE *file)
{
	*json = (struct json){ .file = file };
}

void json_open_object(struct json *json, const char *key)
{
	open_container(json, key, '{', '}');
}

void json_open_array(struct json *json, const char *key)
{
	open_container(json, key, '[', ']');
}

void json_close(struct json *json)
{
	assert(json->depth > 0);
	json->depth--;
	if (json->has_items[json->depth])
		break_line(json);
	fputc(json->closing[json->depth], json->file);
	if (!json->depth)
		fputc('\n', json->file);
}

void json_string(struct json *json, const char *key, const char *value)
{
	begin_value(json, key);
	write_quoted(json, value);
}

void json_unsigned(struct json *json, const char *key, uint64_t value)
{
	begin_value(json, key);
	fprintf(json->file, "%" PRIu64, value);
}

void json_bool(struct json *json, const char *key, bool value)
{
	begin_value(json, key);
	fputs(value ? "true" : "false", json->file);
}

void json_null(struct json *json, const char *key)
{
	begin_value(json, key);
	fputs("null", json->file);
}

void json_decimal(struct json *json, const char *key, double value)
{
	begin_value(json, key);
	fprintf(json->file, "%.3f", value);
}
