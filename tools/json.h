/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_JSON_H
#define HAWSER_TOOLS_JSON_H

/*
 * A writer of JSON: it adds the commas, the quotes and the line breaks, and escapes strings. In an object
 * every value has a key; in an array the key is NULL.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define JSON_MAX_DEPTH 8

struct json {
	FILE *file;
	unsigned int depth;
	bool has_items[JSON_MAX_DEPTH];	/* for each open container: it is not empty */
	char closing[JSON_MAX_DEPTH];
};

/* Starts a document in @file. */
void json_start(struct json *json, FILE *file);

void json_open_object(struct json *json, const char *key);
void json_open_array(struct json *json, const char *key);

/* Closes the innermost container; the outermost one ends the document with a line break. */
void json_close(struct json *json);

void json_string(struct json *json, const char *key, const char *value);
void json_unsigned(struct json *json, const char *key, uint64_t value);
void json_bool(struct json *json, const char *key, bool value);
void json_null(struct json *json, const char *key);

/* A number with up to three decimals; JSON has no infinities, so @value must be finite. */
void json_decimal(struct json *json, const char *key, double value);

#endif
