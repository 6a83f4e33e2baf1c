#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# check-differences.sh PROTOCOL    the table of differences in Documentation/networking/PROTOCOL.rst and the rows that
#                                  the tests in selftests/PROTOCOL print are the same set. A row that no program can see
#                                  without measuring time names a file of selftests/unit, which then mentions the row.

set -eu
protocol=$1
cd "$(dirname "$0")/.."
documented=$(sed -n 's/^   \* - ``\([a-z0-9-]*\)``$/\1/p' "Documentation/networking/$protocol.rst" | sort)
tested=$({
	# The row is the last argument before the text, on the line of the call or the next ones.
	find "selftests/$protocol" -name '*.c' -exec cat {} + | tr '\n\t' '  ' |
		grep -oE '(differs|differs_if|may_differ|dangerous)\([^;]*;' |
		grep -oE '"[a-z0-9]+(-[a-z0-9]+)*", *"|dangerous\("[a-z-]+"' |
		grep -oE '"[a-z0-9-]+"' | tr -d '"'
	grep -ohE -- '--[a-z]+-row [a-z-]+' "selftests/$protocol"/*.sh | cut -d' ' -f2
	grep -hoE '^// Difference of '"$protocol"': [a-z-]+' selftests/unit/*.cc | sed 's/.*: //'
} | sort -u)
if [ "$documented" = "$tested" ]; then
	echo "ok 1 differences of $protocol: $(echo "$tested" | wc -l) rows, each documented once and tested"
else
	diff <(echo "$documented") <(echo "$tested") | sed -n 's/^</# without a test:/p; s/^>/# not documented:/p'
	echo "not ok 1 differences of $protocol: the table and the tests differ"
	exit 1
fi
