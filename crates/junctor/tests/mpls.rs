// SPDX-License-Identifier: MIT OR Apache-2.0
//! Label switching with Linux as the neighbour: a User Mode Linux guest is label edge router on both sides of Junctor.

use std::process::Command;
use std::time::Duration;

use lab::process::Process;
use lab::rig::{Namespace, skip_without, wait_for};
use lab::uml::{self, Guest};

const JUNCTOR: &str = env!("CARGO_BIN_EXE_junctor");
const PATIENCE: Duration = Duration::from_secs(120);

/// Whether a test with a guest cannot run here.
fn skip(test: &str) -> bool {
    if skip_without(test, &[uml::KERNEL, uml::INSMOD, "ping", "traceroute"]) {
        return true;
    }
    let lacks = !uml::has_module("net/mpls/mpls_router");
    if lacks {
        eprintln!("{test} skipped: the kernel of user-mode-linux has no MPLS modules here");
    }
    lacks
}

/// The text of an interface: what it receives with label goes to `mpls`, and IPv4 to `ip`.
fn port(dut: &Namespace, name: &str, address: &str, mpls: &str, ip: &str) -> String {
    let mac = dut.mac(name).unwrap().map(|byte| format!("{byte:x}")).join(":");
    format!(
        "arp{name} :: ARPQuerier({address}, {mac}, ETHERTYPE_ANNO ETHERTYPE);
         FromDevice({name}, METHOD AF_PACKET) -> c{name} :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/8847, 12/0800, -);
         o{name} :: Queue -> ToDevice({name}, METHOD AF_PACKET);
         c{name}[0] -> ARPResponder({address} {mac}) -> o{name};
         c{name}[1] -> [1]arp{name};
         c{name}[2] -> Strip(14) -> {mpls};
         c{name}[3] -> Strip(14) -> CheckIPHeader -> GetIPAddress(16) -> {ip};
         c{name}[4] -> Discard;
         arp{name} -> o{name};\n"
    )
}

/// A router in a namespace. It ends with this.
struct Router {
    process: Process,
    files: tempfile::TempDir,
}

impl Router {
    fn start(dut: &Namespace, text: &str) -> Router {
        let files = tempfile::tempdir().unwrap();
        let at = |name: &str| files.path().join(name).display().to_string();
        std::fs::write(at("router.click"), text).unwrap();
        let process =
            dut.spawn(&[JUNCTOR, "run", "--control", &at("router.sock"), &at("router.click")]).unwrap();
        let mut router = Router { process, files };
        wait_for("the router", PATIENCE, || {
            router.read("list").is_some() || router.process.ended().is_some()
        })
        .unwrap();
        assert!(router.process.ended().is_none(), "{}", router.process.stderr());
        router
    }

    fn read(&self, handler: &str) -> Option<String> {
        let socket = self.files.path().join("router.sock");
        let mut command = Command::new(JUNCTOR);
        let output =
            command.arg("ctl").arg("--socket").arg(socket).arg("--read").arg(handler).output().unwrap();
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// The guest is a host and the label edge router on one side, and both again, in a namespace of its own, on the other.
const EDGES: &str = "
load net/ipv4/ip_tunnel; load net/mpls/mpls_router; load net/mpls/mpls_iptunnel
echo 1048575 > /proc/sys/net/mpls/platform_labels
ip link set vec0 up; ip addr add 10.0.2.2/24 dev vec0
echo 1 > /proc/sys/net/mpls/conf/vec0/input
ip route add 10.9.0.2/32 encap mpls 500 via inet 10.0.2.1 dev vec0
ip -f mpls route add 800 dev lo
mkdir -p /run/netns; ip netns add x
x() { ip netns exec x \"$@\"; }
ip link set vec1 netns x
x ip link set lo up; x ip link set vec1 up; x ip addr add 10.0.4.2/24 dev vec1; x ip addr add 10.9.0.2/32 dev lo
x sh -c 'echo 1048575 > /proc/sys/net/mpls/platform_labels; echo 1 > /proc/sys/net/mpls/conf/vec1/input; echo 1 > /proc/sys/net/ipv4/ip_forward'
x ip -f mpls route add 600 dev lo
x ip route add 10.0.2.0/24 encap mpls 700 via inet 10.0.4.1 dev vec1
ping -n -c 5 -i 0.2 -W 60 10.9.0.2 && echo ping came back
ping -n -c 2 -i 0.2 -W 60 -s 4000 10.9.0.2 && echo fragments came back
traceroute -n -e -q 1 -N 1 -w 20 -m 3 10.9.0.2
";

#[test]
fn junctor_switches_labels_between_two_linux_edges() {
    if skip("junctor_switches_labels_between_two_linux_edges") {
        return;
    }
    let dut = Namespace::new("mpls").unwrap();
    let guest = Guest::start(&dut, &["t0", "t1"], EDGES).unwrap();
    let text = "mpls :: LookupMPLS(500 swap 600 10.0.4.2 1, 700 swap 800 10.0.2.2 0, EXPIRED 2);
         plain :: Discard;\n"
        .to_owned()
        + &port(&dut, "t0", "10.0.2.1", "mpls", "plain")
        + &port(&dut, "t1", "10.0.4.1", "mpls", "plain")
        + "mpls[0] -> arpt0; mpls[1] -> arpt1;
           mpls[2] -> ICMPError(10.0.2.1, timeexceeded, MPLS true, LSP true, SET_FIX_ANNO false) -> mpls;";
    let router = Router::start(&dut, &text);
    let said = guest.finish(PATIENCE).unwrap().stdout;
    let drops = || router.read("mpls.drops");
    assert!(said.contains("ping came back"), "{said}\n{:?}", drops());
    assert!(said.contains("fragments came back"), "{said}\n{:?}", drops());
    // The message about the label goes to the end of the path, and from there back to the sender. It names the label (RFC 4950).
    let hop =
        said.lines().find(|line| line.trim_start().starts_with("1 ")).unwrap_or_else(|| panic!("{said}"));
    assert!(hop.contains("10.0.2.1") && hop.contains("<MPLS:L=500,E=0,S=1,T=1>"), "{said}");
    assert!(said.lines().any(|line| line.trim_start().starts_with("3  10.9.0.2")), "{said}");
}
