# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
#
# . apt-sources.sh    for scripts that fetch packages of other suites than this host's, from the mirrors of this host's own
# sources. They define die.

# Prints "URI SUITE KEYRING" for every Debian source of the host, of both forms that apt accepts ("-" for no
# keyring).
host_sources() {
	for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
		[ -r "$file" ] || continue
		awk '$1 == "deb" {
			key = "-"
			if (match($0, /\[[^]]*\]/)) {
				options = substr($0, RSTART + 1, RLENGTH - 2)
				sub(/\[[^]]*\]/, "")
				n = split(options, option, " ")
				for (i = 1; i <= n; i++)
					if (option[i] ~ /^signed-by=\//) key = substr(option[i], 11)
			}
			print $2, $3, key
		}' "$file"
	done
	for file in /etc/apt/sources.list.d/*.sources; do
		[ -r "$file" ] || continue
		awk 'function flush(   i, j, n, m, uri, suite) {
			n = split(uris, uri, " "); m = split(suites, suite, " ")
			if (types ~ /(^| )deb( |$)/ && enabled != "no")
				for (i = 1; i <= n; i++) for (j = 1; j <= m; j++) print uri[i], suite[j], key
			types = uris = suites = enabled = ""; key = "-"
		}
		BEGIN { key = "-" }
		/^#/ { next }
		/^[[:space:]]*$/ { flush(); next }
		{ field = tolower($1); value = $0; sub(/^[^:]*:[[:space:]]*/, "", value) }
		field == "types:" { types = value }
		field == "uris:" { uris = value }
		field == "suites:" { suites = value }
		field == "enabled:" { enabled = value }
		field == "signed-by:" && value ~ /^\// { key = value }
		END { flush() }' "$file"
	done
}

# source_line SUITE [ARCHITECTURES]: prints the source line for a suite, of amd64 or those given. Backports live on the mirror of
# the release itself.
source_line() {
	suite=$1
	architectures=${2:-amd64}
	. /etc/os-release
	case $suite in
	*-security) like=$VERSION_CODENAME-security ;;
	*) like=$VERSION_CODENAME ;;
	esac
	found=$(host_sources | awk -v like="$like" '$2 == like { print $1, $3; exit }')
	[ -n "$found" ] || die "no source for $like among this host's apt sources; a Debian host is needed"
	uri=${found% *}
	key=${found##* }
	[ "$key" != - ] || key=/usr/share/keyrings/debian-archive-keyring.gpg
	if [ -r "$key" ]; then
		echo "deb [arch=$architectures signed-by=$key] $uri $suite main"
	else
		echo "deb [arch=$architectures] $uri $suite main"
	fi
}
