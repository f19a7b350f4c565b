#!/bin/bash
# Runs `lab` on a copy of this machine that lacks the packages which the lab installs, and whose services would start. The
# copy is an overlay in a mount namespace: what is purged and installed there is not on the machine itself.
# usage: unshare --mount fresh-machine.sh LAB CHECKOUT
set -eu
lab=$1 checkout=$2
mount --make-rprivate /
mount -t tmpfs overlay /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root
cd /mnt/root
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
cp "$lab" usr/local/bin/lab
printf '#!/bin/sh\nexit 0\n' > usr/sbin/policy-rc.d
chmod +x usr/sbin/policy-rc.d
cat > tmp/inside.sh <<'INSIDE'
set -eu
cd "$1"
export ETCDMEMBER_LAB_DIR=/root/fresh-lab
unset KUBECONFIG
trap 'lab down > /dev/null 2>&1 || true' EXIT
dpkg --purge --force-depends containerd runc containernetworking-plugins conntrack xfsprogs iptables > /dev/null 2>&1
rm -rf /var/lib/apt/lists/*
for c in containerd runc conntrack mkfs.xfs iptables; do
	if command -v $c; then echo "FAIL: $c is still there"; fi
done
lab build
for c in containerd runc conntrack mkfs.xfs iptables; do
	command -v $c > /dev/null || echo "FAIL: $c was not installed"
done
# The machine's own policy is back, and containerd's service will not start with the machine.
[ "$(cat /usr/sbin/policy-rc.d)" = "$(printf '#!/bin/sh\nexit 0\n')" ] || echo "FAIL: policy-rc.d was changed"
ls /usr/sbin/policy-rc.d?* 2> /dev/null && echo "FAIL: something was left beside policy-rc.d"
if [ -e /etc/systemd/system/multi-user.target.wants/containerd.service ]; then echo "FAIL: containerd's service is enabled"; fi
# An overlay can't carry another, so this takes the lab's other way to unpack images.
lab up --nodes 1
lab exec -- kubectl get nodes
lab down
INSIDE
chroot . bash /tmp/inside.sh "$checkout"
echo "DONE"
