// SPDX-License-Identifier: MIT OR Apache-2.0
//! A written deployment with strongSwan has Linux at the other end of its tunnel: strongSwan with the kernel's own ESP, in a User Mode Linux guest.

use std::collections::BTreeSet;

use testbed::rig::skip_without;
use testbed::uml::{self, Guest};

use crate::keys::{spis, spis_in};
use crate::site::{PATIENCE, Site};
use crate::warriors::{self, BEHIND, deployed, pings};

/// What the guest does: it runs charon, and the scripts that the test puts into a directory.
const SCRIPT: &str = r#"
mkdir -p /var/tmp/lib; ln -s /usr/lib/uml/modules /var/tmp/lib/modules
printf '#!/bin/sh\nexec modprobe -q -d /var/tmp "$@"\n' > /run/modprobe; chmod +x /run/modprobe
echo /run/modprobe > /proc/sys/kernel/modprobe
for module in ipv6 xfrm_user esp4; do /run/modprobe $module; done
ip link set vec0 up
ip addr add 10.0.3.2/24 dev vec0; ip addr add 10.2.0.1/32 dev lo
ip route add default via 10.0.3.1
# The kernel loads what it encrypts with now, and not while the gateway waits for an answer.
ip xfrm state add src 192.0.2.1 dst 192.0.2.2 proto esp spi 1 aead 'rfc4106(gcm(aes))' 0x$(printf %072d 0) 128
ip xfrm state flush
export STRONGSWAN_CONF=DIRECTORY/strongswan.conf
/usr/lib/ipsec/charon > /run/charon.log 2>&1 &
while [ ! -S /run/charon.vici ]; do sleep 0.05; done
swanctl --load-all --noprompt --file DIRECTORY/swanctl.conf 2>&1
echo charon is up
n=1
while :; do
    while [ ! -e DIRECTORY/$n ]; do sleep 0.05; done
    echo "<$n>"
    sh DIRECTORY/$n 2>&1 || cat /run/charon.log
    echo "</$n>"
    n=$((n + 1))
done
"#;

const SETTINGS: &str = "charon {
 load = random nonce aes sha1 sha2 hmac kdf gcm curve25519 openssl pem kernel-netlink socket-default vici
 plugins {
  vici {
   socket = unix:///run/charon.vici
  }
 }
 filelog {
  stderr {
   default = 1
  }
 }
}
swanctl {
 load = random openssl pem
 socket = unix:///run/charon.vici
}
";

/// The guest, at 10.0.3.2, with 10.2.0.1 behind it.
struct Linux {
    guest: Guest,
    files: tempfile::TempDir,
    scripts: usize,
}

impl Linux {
    fn new(site: &Site) -> Linux {
        let files = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| std::fs::write(files.path().join(name), text).unwrap();
        put("strongswan.conf", SETTINGS);
        put("swanctl.conf", &warriors::other_site());
        for command in
            ["addr flush dev c0", "link add br0 type bridge", "link set c0 master br0", "link set br0 up"]
        {
            site.c.ip(command).unwrap();
        }
        let script = SCRIPT.replace("DIRECTORY", &files.path().display().to_string());
        let mut guest = Guest::start(&site.c, &["t0"], &script).unwrap();
        site.c.ip("link set t0 master br0").unwrap();
        guest.wait_for("charon is up", PATIENCE).unwrap_or_else(|why| panic!("{why}\n{}", guest.said()));
        Linux { guest, files, scripts: 0 }
    }

    /// What a script says in the guest.
    fn run(&mut self, script: &str) -> String {
        self.scripts += 1;
        let n = self.scripts;
        let path = self.files.path().join(n.to_string());
        std::fs::write(path.with_extension("new"), script).unwrap();
        std::fs::rename(path.with_extension("new"), path).unwrap();
        let end = format!("</{n}>");
        let ended = self.guest.wait_for(&end, PATIENCE);
        ended.unwrap_or_else(|why| panic!("{why}: {script}\n{}", self.guest.said()));
        let said = self.guest.said();
        let (_, text) = said.split_once(&format!("<{n}>")).unwrap();
        text.split_once(&end).unwrap().0.to_owned()
    }
}

#[test]
fn linux_with_strongswan_is_a_site() {
    let name = "linux_with_strongswan_is_a_site";
    if warriors::skip(name) || skip_without(name, &[uml::KERNEL, uml::INSMOD, "modprobe"]) {
        return;
    }
    if !["net/ipv4/esp4", "net/xfrm/xfrm_user"].into_iter().all(uml::has_module) {
        eprintln!("{name} skipped: the kernel of user-mode-linux has no ESP modules here");
        return;
    }
    let mut site = deployed();
    let mut linux = Linux::new(&site);
    site.wait("a tunnel", || pings(&site.rig.b, BEHIND));
    let first = spis(&site);
    assert_eq!(spis_in(&linux.run("ip xfrm state")), first);
    // Some are fragmented before or behind the tunnel.
    for size in ["0", "1400", "1472", "4000"] {
        site.rig.b.run(&["ping", "-n", "-c", "1", "-W", "9", "-s", size, "-M", "dont", BEHIND]).unwrap();
        let said = linux.run(&format!("ping -n -c 1 -W 9 -s {size} -M dont -I 10.2.0.1 10.0.2.2"));
        assert!(said.contains(" 0% packet loss"), "{said}");
    }
    // New keys, asked for by Linux, and packets all the time.
    let stream = site.rig.b.spawn(&["ping", "-n", "-i", "0.02", BEHIND]).unwrap();
    site.wait("answers", || stream.stdout().lines().count() > 10);
    linux.run("swanctl --rekey --child net");
    // The old ones go some seconds later.
    site.wait("other associations", || spis(&site).difference(&first).count() == 2);
    let others: BTreeSet<_> = spis(&site).difference(&first).cloned().collect();
    assert!(spis_in(&linux.run("ip xfrm state")).is_superset(&others));
    let answers = stream.stdout().lines().count();
    site.wait("answers by the others", || stream.stdout().lines().count() > answers + 10);
    let said = stream.interrupt(PATIENCE).unwrap().stdout;
    let number = |line: &str| line.split_once("icmp_seq=")?.1.split(' ').next()?.parse::<usize>().ok();
    let numbers: Vec<usize> = said.lines().filter_map(number).collect();
    assert_eq!(numbers.len(), *numbers.last().unwrap(), "none is lost: {said}");
    site.undeploy();
}
