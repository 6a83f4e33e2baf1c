# SPDX-License-Identifier: GPL-2.0
#
# After the boot a kernel still tests its ciphers, which would distort measurements.
#
#       . quiet.sh		waits until the processors are idle

ticks() { # busy and all, since the boot
	awk '$1 == "cpu" { for (i = 2; i <= 9; i++) all += $i; print all - $5 - $6, all }' /proc/stat
}

set -- $(ticks)
for try in $(seq 60); do
	sleep 1
	set -- $(ticks) "$1" "$2"
	[ $((($1 - $3) * 10)) -gt $(($2 - $4)) ] || return 0
done
echo "the machine does not become idle" >&2
exit 1
