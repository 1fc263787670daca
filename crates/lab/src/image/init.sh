#!/bin/sh
# First program of the machine: mounts the root file system and hands over to appease-guest.
export PATH=/bin
busybox mount -t devtmpfs dev /dev
busybox mount -t proc proc /proc
busybox mount -t sysfs sys /sys
busybox mount -t tmpfs -o mode=755 run /run

fail() {
    echo "initramfs: $*"
    busybox poweroff -f
}

read -r cmdline </proc/cmdline
case " $cmdline " in *" appease.probe "*) echo "appease: this machine boots"; busybox poweroff -f ;; esac

# One that does not load may be for other processors only; what is really missing shows below.
while read -r module; do
    busybox insmod "/lib/$module"
done </lib/order

# Disks are told apart by their serial numbers.
lower=
for block in /sys/block/vd*; do
    read -r serial <"$block/serial"
    disk=/dev/${block##*/}
    case $serial in
    base | overlay*)
        busybox mkdir -p "/disk/$serial"
        busybox mount -t ext4 -o ro,noatime "$disk" "/disk/$serial" || fail "disk $serial cannot be mounted"
        case $serial in overlay*) lower=$lower/disk/$serial: ;; esac
        ;;
    modules) modules=$disk ;;
    tools) tools=$disk ;;
    esac
done
busybox mkdir -p /upper
busybox mount -t tmpfs -o size=75% upper /upper
busybox mkdir /upper/files /upper/work
busybox mount -t overlay -o "lowerdir=${lower}/disk/base,upperdir=/upper/files,workdir=/upper/work" root /newroot ||
    fail "the root file system cannot be mounted"

busybox mkdir -p /run/tools /newroot/usr/lib/modules /newroot/boot
busybox mount -t ext4 -o ro,noatime "$tools" /run/tools || fail "disk tools cannot be mounted"
busybox mount -t ext4 -o ro,noatime "$modules" /newroot/usr/lib/modules || fail "disk modules cannot be mounted"
release=$(busybox uname -r)
busybox ln -sf "/usr/lib/modules/$release/config" "/newroot/boot/config-$release"
for dir in dev proc sys run; do
    busybox mount --move "/$dir" "/newroot/$dir"
done

guest=/run/tools/appease-guest
if [ ! -x "/newroot$guest" ]; then
    case " $cmdline " in *" appease.shell "*) exec busybox switch_root /newroot /bin/sh -i ;; esac
    fail "appease-guest is not on the tools disk"
fi
exec busybox switch_root /newroot "$guest" init
