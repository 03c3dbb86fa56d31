#!/bin/busybox sh
# The first process of the machine, in memory: loads what the disks need and goes on from the disk.
b=/bin/busybox
$b mkdir -p /proc /sys /dev /root
$b mount -t proc proc /proc
$b mount -t sysfs sysfs /sys
$b mount -t devtmpfs devtmpfs /dev
for module in $($b cat /modules/order); do
    $b insmod "/modules/$module" || echo "octavo-guest: cannot load $module"
done
if ! $b mount -t ext4 -o ro /dev/vda /root; then
    echo 'octavo-guest: the system disk cannot be mounted'
    $b poweroff -f
fi
for place in proc sys dev; do $b mount -o move "/$place" "/root/$place"; done
exec $b switch_root /root /usr/local/sbin/octavo-guest
