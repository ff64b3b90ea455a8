# What a node is: sh node.sh STATE NAME, in fresh network, host name, IPC and mount namespaces, sleeping for good.
# shellcheck shell=sh
# Not to be run by hand: ci/cluster/cluster does.
set -e
state=$1 name=$2
mount --make-rprivate /
echo "$name" >/proc/sys/kernel/hostname
mount -t tmpfs tmpfs /dev/shm
mount --bind "$state/hosts" /etc/hosts
# /proc/sys/net shows the network namespace of the process that opens it
set_to() { if [ -e "/proc/sys/net/$2" ]; then echo "$1" >"/proc/sys/net/$2"; fi; }
if [ "${FAMILY:-4}" = 4 ]; then
    set_to 1 ipv6/conf/all/disable_ipv6
    set_to 1 ipv6/conf/default/disable_ipv6
fi
set_to 0 ipv4/tcp_slow_start_after_idle # a pause between repetitions must not make the next one slow
set_to 1 ipv4/tcp_no_metrics_save       # nor what an earlier run saw
set_to reno ipv4/tcp_congestion_control # nothing is lost here, and bbr, some machines' default, would pace with timers
for file in iptables ip6tables arptables; do set_to 0 "bridge/bridge-nf-call-$file"; done
echo $$ >"$state/$name.pid.new"
mv "$state/$name.pid.new" "$state/$name.pid"
exec sleep infinity
