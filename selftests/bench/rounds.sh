# SPDX-License-Identifier: GPL-2.0
#
# rounds FROM TO PROTOCOL...	runs the bench of each protocol three times, in turn, from 10.66.0.1 to 10.66.0.2. FROM and TO
#				are empty or the command that runs a program in the namespace of that end

# The kernel's own has neither: its sendmsg() refuses sendmmsg()'s MSG_BATCH.
many=
[ "$SUITE" != ours ] || many="rds-batch rds-many"

rounds() {
	from=$1 to=$2
	shift 2
	for round in 1 2 3; do
		for protocol; do
			one_round
		done
	done
	put /tmp/results results
}

one_round() {
	port=$((5000 + round))
	$to bench server "$protocol" 10.66.0.2 $port &
	server=$!
	sleep 1
	status=0
	$from bench client "$protocol" 10.66.0.1 $port 10.66.0.2 "$round" 1 >>/tmp/results || status=$?
	# 3: a cell was stuck, which is a result; the server still waits.
	case $status in
	0) wait $server ;;
	3) kill $server ;;
	*) exit $status ;;
	esac
}
