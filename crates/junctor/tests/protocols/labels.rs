// SPDX-License-Identifier: MIT OR Apache-2.0
//! Labels of LDP and of MPLS VPNs, with FRR on both sides, in a guest whose kernel has MPLS and VRFs.
//!
//! ```text
//!  a 10.0.1.2 ----\            /--- l, which has 10.8.0.1
//!                  the router --
//!  c 10.0.1.2 ----/            \--- r ------- e, which has 10.9.0.1, and 10.5.0.1 in VRF red
//!    in VRF red
//! ```
//! The router, l, r and e speak OSPF and LDP; the router and e are the provider's edges, and speak BGP for the VPN of red's customer.

use std::time::Duration;

use testbed::frr;
use testbed::rig::{Namespace, skip_without};
use testbed::uml::{self, Guest};

use crate::fed::JUNCTOR;

const MACHINE: &str = r#"
load lib/crc-ccitt; load net/ipv6/ipv6; load drivers/net/vrf; load drivers/net/tun; load drivers/net/veth
load net/ipv4/ip_tunnel; load net/mpls/mpls_router; load net/mpls/mpls_iptunnel
PATH=$BIN:$FRR:$PATH; export HOME=/run
mkdir -p /run/netns
ns() { ip netns exec "$@"; }
now() { cut -d. -f1 /proc/uptime; }
until_true() {
  end=$(($(now) + 90))
  until "$@" > /run/out 2>&1; do [ $(now) -lt $end ] || { echo "gave up: $*"; cat /run/out; return; }; sleep 0.5; done
}
routes() { junctor routes --socket /run/p.sock "$@"; }
ctl() { junctor ctl --socket /run/r.sock --read "$@"; }
reaches() { until_true ns $1 ping -n -c 1 -W 3 $3; echo "$2"; }

for n in ctl a c l r e; do
  ip netns add $n; ip -n $n link set lo up
  ns $n sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1048575 > /proc/sys/net/mpls/platform_labels'
done
n=0
for host in a l r c; do
  ip link add v$n type veth peer name e0 netns $host; ip link set v$n up; ip -n $host link set e0 up
  ns $host ethtool -K e0 tx off > /dev/null; ethtool -K v$n tx off > /dev/null
  case $host in a | c) net=10.0.1; ip -n $host addr add $net.2/24 dev e0; ip -n $host route add default via $net.1;;
  l) ip -n $host addr add 10.0.2.2/24 dev e0; ip -n $host addr add 10.8.0.1/32 dev lo;; r) ip -n $host addr add 10.0.3.2/24 dev e0;; esac
  n=$((n + 1))
done
ip link add e1 netns r type veth peer name e0 netns e; ip -n r link set e1 up; ip -n e link set e0 up
ip -n r addr add 10.0.4.1/24 dev e1; ip -n e addr add 10.0.4.2/24 dev e0; ip -n e addr add 10.9.0.1/32 dev lo
ip -n e link add red type vrf table 10; ip -n e link set red up; ip -n e addr add 10.5.0.1/24 dev red
for n in l r e; do ns $n sh -c 'for d in /proc/sys/net/mpls/conf/e*; do echo 1 > $d/input; done'; done

junctor init router v0=10.0.1.1/24 v1=10.0.2.1/24 v2=10.0.3.1/24 v3=10.0.1.1/24 --vrf red=v3 --mpls \
  --host --netns ctl --feed routes | sed 's/FromDevice(v/FromDevice(METHOD AF_PACKET, v/; s/ToDevice(v/ToDevice(METHOD AF_PACKET, v/' > /run/r.click
junctor run --icc /run/icc --control /run/r.sock /run/r.click > /run/r.log 2>&1 &
until_true ctl rt.nroutes
ip -n ctl addr add 10.0.0.1/32 dev lo
junctor control routes --icc /run/icc --netns ctl --socket /run/p.sock --vrf red=1001 > /run/p.log 2>&1 &
until_true routes --status

# FRR in a namespace: its interfaces to other routers, its address for LDP, and that for BGP with the other edge's.
frr() {
  d=/run/frr-$1; mkdir $d; chmod 777 $d
  common="-z $d/zserv --vty_socket $d -A 127.0.0.1 --log stdout"
  { [ $1 = ctl ] && echo 'fpm address 127.0.0.1'; } > $d/zebra.conf
  { for i in $2; do printf "interface $i\n ip ospf area 0\n ip ospf network point-to-point\n ip ospf hello-interval 1\n ip ospf dead-interval 4\n"; done
    printf "router ospf\n ospf router-id $3\n redistribute connected\n timers throttle spf 10 10 100\n timers throttle lsa all 0\n timers lsa min-arrival 0\n"; } > $d/ospfd.conf
  { printf "mpls ldp\n router-id $3\n address-family ipv4\n  discovery transport-address $3\n  discovery hello interval 1\n  discovery hello holdtime 4\n"
    for i in $2; do printf "  interface $i\n"; done; } > $d/ldpd.conf
  ns $1 zebra $(test $1 = ctl && echo -M dplane_fpm_nl) -f $d/zebra.conf -i $d/z.pid $common > $d/z.log 2>&1 &
  until_true test -S $d/zserv
  ns $1 ospfd -f $d/ospfd.conf -i $d/o.pid $common > $d/o.log 2>&1 &
  ns $1 ldpd -f $d/ldpd.conf -i $d/l.pid --ctl_socket $d $common > $d/l.log 2>&1 &
  [ -z "$4" ] && return
  cat > $d/bgpd.conf <<END
router bgp 65001
 bgp router-id $4
 no bgp default ipv4-unicast
 neighbor $5 remote-as 65001
 neighbor $5 update-source $4
 neighbor $5 timers 2 8
 neighbor $5 timers connect 1
 neighbor $5 advertisement-interval 0
 address-family ipv4 vpn
  neighbor $5 activate
router bgp 65001 vrf red
 bgp router-id $4
 address-family ipv4 unicast
  redistribute connected
  label vpn export auto
  rd vpn export 65001:1
  rt vpn both 65001:1
  export vpn
  import vpn
END
  ns $1 bgpd -f $d/bgpd.conf -i $d/b.pid $common > $d/b.log 2>&1 &
}
frr l e0 10.0.2.2
frr r 'e0 e1' 10.0.3.2
frr e e0 10.0.4.2 10.9.0.1 10.0.0.1
frr ctl 'host1 host2' 10.0.2.1 10.0.0.1 10.9.0.1

# LDP: a packet gets a label, a label is swapped, and one is popped for the last hop.
pushes() { routes 10.9.0.1 | grep -q '10.0.3.2 on host2 labels [0-9]'; }
until_true pushes; routes 10.9.0.1
swaps() { routes --labels | grep -q '10.0.3.2 on host2 labels [0-9]' && routes --labels | grep -q '10.0.2.2 on host1$'; }
until_true swaps; routes --labels; ctl mpls.table
seen() { ns $1 tcpdump -n -l -c 1 -i e0 "$2" > /run/seen 2> /run/seen.err & until_true grep -q listening /run/seen.err; }
seen r 'mpls and ip src 10.0.1.2'
reaches a 'a reaches e' 10.9.0.1; wait_for() { until_true grep -q . /run/seen; echo "$1 $(cat /run/seen)"; }
wait_for 'pushed:'
ns l ip route get 10.9.0.1 from 10.8.0.1; seen r 'mpls and ip src 10.8.0.1'
until_true ns l ping -n -c 1 -W 3 -I 10.8.0.1 10.9.0.1; echo l reaches e
wait_for 'swapped:'
seen l 'ip src 10.9.0.1'
until_true ns e ping -n -c 1 -W 3 -I 10.9.0.1 10.8.0.1; echo e reaches l
wait_for 'popped:'
until_true routes diff; cat /run/out

# The VPN: two labels, one for the other edge and one for the customer.
vpn() { routes 10.5.0.1 --vrf red | grep -q 'bgp.*labels [0-9]*/[0-9]'; }
until_true vpn; routes 10.5.0.1 --vrf red
seen r 'mpls and mpls'
reaches c 'c reaches red' 10.5.0.1; wait_for 'of the VPN:'
ns a ping -n -c 1 -W 2 10.5.0.1 > /dev/null || echo a does not
ctl mpls.table | grep 'lookup 1' && echo a label leads to red
until_true routes diff; cat /run/out

# The link goes, and comes back.
ip -n r link set e0 down
goes() { ! routes 10.9.0.1 | grep -q labels && ! routes --labels | grep -q host2 && ! routes 10.5.0.1 --vrf red | grep -q labels; }
until_true goes; routes --labels; echo withdrawn
until_true routes diff; cat /run/out
ip -n r link set e0 up
until_true pushes; until_true swaps; until_true vpn
reaches a 'a reaches e again' 10.9.0.1; reaches c 'c reaches red again' 10.5.0.1
until_true routes diff; cat /run/out
cat /run/p.log
"#;

#[test]
fn labels_of_ldp_and_of_vpns() {
    let test = "labels_of_ldp_and_of_vpns";
    let daemons = ["zebra", "ospfd", "ldpd", "bgpd"].map(frr::program);
    let needs =
        daemons.iter().map(String::as_str).chain([uml::KERNEL, uml::INSMOD, "ping", "tcpdump", "ethtool"]);
    if skip_without(test, &needs.collect::<Vec<_>>()) {
        return;
    }
    let modules = ["drivers/net/vrf", "drivers/net/tun", "drivers/net/veth", "net/mpls/mpls_iptunnel"];
    if !modules.into_iter().all(uml::has_module) || !std::path::Path::new("/dev/net/tun").exists() {
        eprintln!("{test} skipped: user-mode-linux has no modules for VRFs, MPLS and taps here");
        return;
    }
    let directory = |path: &str| path.rsplit_once('/').map_or("", |(directory, _)| directory).to_owned();
    let script = format!("BIN={} FRR={}\n{MACHINE}", directory(JUNCTOR), directory(&daemons[0]));
    let outside = Namespace::new("guest").unwrap();
    let guest = Guest::with_memory(1024, &outside, &[], &script).unwrap();
    let said = guest.finish(Duration::from_secs(400)).unwrap();
    for text in [
        "a reaches e",
        "l reaches e",
        "e reaches l",
        "c reaches red",
        "a does not",
        "a label leads to red",
        "withdrawn",
        "a reaches e again",
        "c reaches red again",
    ] {
        assert!(said.contains(text), "{text}\n{said}");
    }
    let line = |head: &str| {
        said.lines().find(|line| line.starts_with(head)).unwrap_or_else(|| panic!("{head}\n{said}"))
    };
    assert!(line("pushed:").contains("MPLS (label "), "{said}");
    assert!(line("swapped:").contains("MPLS (label "), "{said}");
    assert!(!line("popped:").contains("MPLS"), "{said}");
    // The outer label is not at the bottom of the stack ([S]), the inner one is.
    assert_eq!(line("of the VPN:").matches("(label ").count(), 2, "{said}");
    assert_eq!(said.matches("nothing differs").count(), 4, "{said}");
    assert!(!said.contains("gave up"), "{said}");
}
