# SPDX-License-Identifier: GPL-2.0
# Completion for hawser's programs: the options that --help prints; else names of hosts, or of files.
# shellcheck shell=bash
_hawser() {
	local word=${COMP_WORDS[COMP_CWORD]}

	if [[ $word == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$("$1" --help 2>/dev/null | grep -oE -- '(^|[ ,])--?[a-zA-Z][a-z-]*' |
			tr -d ' ,' | sort -u)" -- "$word")
	else
		mapfile -t COMPREPLY < <(compgen -A hostname -- "$word")
	fi
}
complete -o default -F _hawser rds-ping rds-info rds-stress kcm-server kcm-client
